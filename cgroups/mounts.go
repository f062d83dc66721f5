package cgroups

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// mount is one mounted cgroup hierarchy.
type mount struct {
	point        string // absolute
	root         string // which cgroup of the hierarchy is mounted there
	major, minor uint32
	version      int      // 1 or 2
	controllers  []string // v1 only: the controllers of the hierarchy
}

// parseMounts finds the cgroup mounts in the text of /proc/self/mountinfo
// (proc_pid_mountinfo(5)). A later mount on the same point hides an earlier.
func parseMounts(text []byte) ([]mount, error) {
	// A host can have thousands of mounts, some with lines longer than the
	// parser takes (overlay): only ours reach it.
	var mine bytes.Buffer
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(" - cgroup")) {
			mine.Write(line)
		}
	}
	infos, err := mountinfo.GetMountsFromReader(&mine, nil)
	if err != nil {
		return nil, fmt.Errorf("read mountinfo: %w", err)
	}
	var out []mount
	for _, in := range infos {
		m := mount{point: in.Mountpoint, root: in.Root, major: uint32(in.Major), minor: uint32(in.Minor)}
		switch in.FSType {
		case "cgroup":
			m.version = 1
			m.controllers = strings.Split(in.VFSOptions, ",")
		case "cgroup2":
			m.version = 2
		default:
			continue
		}
		hidden := false
		for i := range out {
			if out[i].point == m.point {
				out[i], hidden = m, true
			}
		}
		if !hidden {
			out = append(out, m)
		}
	}
	return out, nil
}

// parseSelf reads the text of /proc/self/cgroup (cgroups(7)): the caller's
// cgroup per v1 controller, and under "" its v2 cgroup. Lines that are not of
// the form ID:CONTROLLERS:PATH are skipped.
func parseSelf(text []byte) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(string(text)) {
		_, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		names, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 || !strings.HasPrefix(path, "/") {
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			own[name] = path
		}
	}
	return own
}

// below returns the caller's cgroup relative to a mount, "." for the mount
// itself; ok is false when it cannot be reached there (another cgroup is
// mounted, or the path leads out of the cgroup namespace).
func below(root, own string) (rel string, ok bool) {
	if own == "" || strings.HasSuffix(root, "/..") || strings.Contains(root, "/../") {
		return "", false
	}
	if root != "/" {
		rest, found := strings.CutPrefix(own, root)
		if !found || rest != "" && rest[0] != '/' {
			return "", false
		}
		own = rest
	}
	rel = strings.Trim(own, "/")
	for part := range strings.SplitSeq(rel, "/") {
		if part == ".." || part == "." {
			return "", false
		}
	}
	if rel == "" {
		rel = "."
	}
	return rel, true
}
