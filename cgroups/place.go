package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxrun/sbxrun/internal/sys"
)

// hostLeaf is where a supervisor moves itself, and only itself, when its own
// delegated v2 cgroup must become a parent: a cgroup with processes in it can
// enable no controller for its children ("no internal processes",
// Documentation/admin-guide/cgroup-v2.rst). The dot keeps it apart from every
// sbxrun-<id>.
const hostLeaf = "sbxrun.supervisor"

// maxProcs bounds what is read of one cgroup.procs: 4 Mi processes of 8
// characters, more than the kernel's PID_MAX_LIMIT allows.
const maxProcs = 32 << 20

// place is where below a v2 mount the supervisor's directory goes.
type place struct {
	rel      string
	enable   []string // controllers to enable for its children first
	moveSelf bool     // the caller must leave it for hostLeaf first
}

// placeV1 returns where below a v1 mount this process may make groups. own is
// the own cgroup, "" when it cannot be reached from the mount.
func (e env) placeV1(dir *sys.CgroupDir, own string) (string, *trouble) {
	var candidates []string
	if e.euid == 0 {
		candidates = append(candidates, ".")
	}
	if own != "" && !slices.Contains(candidates, own) {
		candidates = append(candidates, own)
	}
	var first error = fs.ErrPermission
	for i, rel := range candidates {
		err := dir.Writable(rel)
		if err == nil {
			return rel, nil
		}
		if i == 0 {
			first = err
		}
	}
	return "", notWritable(1, first)
}

// placeV2 is placeV1 for v2: the own cgroup or its parent when delegated, the
// top of the mount for root.
func (e env) placeV2(dir *sys.CgroupDir, own string, need []string) (place, *trouble) {
	var first *trouble
	for _, rel := range e.candidatesV2(dir, own) {
		at, t := e.tryV2(dir, rel, rel == own, need)
		if t == nil {
			return at, nil
		}
		if first == nil {
			first = t
		}
	}
	if first == nil {
		first = notWritable(2, fs.ErrPermission)
	}
	return place{}, first
}

func (e env) candidatesV2(dir *sys.CgroupDir, own string) []string {
	var out []string
	switch {
	case own == "":
	case path.Base(own) == hostLeaf: // we, or who started us, moved there
		out = append(out, path.Dir(own))
	default:
		if e.euid != 0 || delegated(dir, own) {
			out = append(out, own)
		}
		// systemd's DelegateSubgroup= and container managers put the process
		// into a child of the delegated cgroup.
		if own != "." && delegated(dir, path.Dir(own)) {
			out = append(out, path.Dir(own))
		}
	}
	if e.euid == 0 && !slices.Contains(out, ".") {
		out = append(out, ".")
	}
	return out
}

// delegated reports whether systemd marked the cgroup as handed over
// (https://systemd.io/CGROUP_DELEGATION, version 251; trusted. before).
func delegated(dir *sys.CgroupDir, rel string) bool {
	d, err := dir.OpenDir(rel)
	if err != nil {
		return false
	}
	defer d.Close()
	return d.Xattr("user.delegate") == "1" || d.Xattr("trusted.delegate") == "1"
}

func (e env) tryV2(dir *sys.CgroupDir, rel string, isOwn bool, need []string) (place, *trouble) {
	d, err := dir.OpenDir(rel)
	if err != nil {
		return place{}, notWritable(2, err)
	}
	defer d.Close()
	// To clone into a group below, cgroup.procs of the common ancestor must be
	// ours too.
	for _, f := range []string{".", "cgroup.subtree_control", "cgroup.procs"} {
		if err := d.Writable(f); err != nil {
			return place{}, notWritable(2, err)
		}
	}
	have, on := readWords(d, "cgroup.controllers"), readWords(d, "cgroup.subtree_control")
	at := place{rel: rel}
	for _, c := range need {
		if !slices.Contains(have, c) {
			return place{}, &trouble{controller: c, what: "is not available in cgroup " + d.Path(), hint: hintDelegate}
		}
		if !slices.Contains(on, c) {
			at.enable = append(at.enable, c)
		}
	}
	if len(at.enable) == 0 || isRoot(d) {
		return at, nil
	}
	pids, err := procs(d, ".")
	switch {
	case err != nil:
		return place{}, notWritable(2, err)
	case len(pids) == 0:
	case isOwn && len(pids) == 1 && pids[0] == e.pid:
		at.moveSelf = true
	default:
		return place{}, &trouble{
			what: fmt.Sprintf("cannot be enabled: cgroup %s holds other processes (%s)", d.Path(), pidList(pids)),
			hint: hintBusy,
		}
	}
	return at, nil
}

// isRoot recognises the root of the whole hierarchy, the only cgroup without a
// type; the rule about internal processes does not apply to it.
func isRoot(d *sys.CgroupDir) bool {
	_, err := d.Read("cgroup.type", make([]byte, 1))
	return errors.Is(err, fs.ErrNotExist)
}

// procs returns the processes in the cgroup rel below d. A process that the
// reader's pid namespace does not show is 0.
func procs(d *sys.CgroupDir, rel string) ([]int, error) {
	file := "cgroup.procs"
	if rel != "." {
		file = rel + "/" + file
	}
	text, err := d.ReadAll(file, maxProcs)
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", d.Path(), file, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// pidList names processes in a message, the first ten of them.
func pidList(pids []int) string {
	var b strings.Builder
	for i, pid := range pids {
		switch {
		case i == 10:
			fmt.Fprintf(&b, ", and %d more", len(pids)-i)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "pid %d", pid)
	}
	return b.String()
}
