package cgroups

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// Mode says how a host mounts its cgroup hierarchies.
type Mode string

const (
	// ModeNone is a host without any cgroup mount that we can see.
	ModeNone Mode = "none"
	// ModeV1 is a host with v1 hierarchies only.
	ModeV1 Mode = "v1"
	// ModeHybrid is a host with both: a controller is in one of them.
	ModeHybrid Mode = "hybrid"
	// ModeV2 is a host with the unified hierarchy only.
	ModeV2 Mode = "v2"
)

// The controllers that limits need, and the one that only measures.
const (
	memoryController = "memory"
	cpuController    = "cpu"
	pidsController   = "pids"
	usageController  = "cpuacct" // v1; v2 counts in every cgroup
)

func limitControllers() [3]string {
	return [3]string{memoryController, cpuController, pidsController}
}

// Layout is the probed cgroup set-up of this machine, as far as the caller may
// use it. It holds no descriptors and changes nothing.
type Layout struct {
	mode    Mode
	env     env
	trees   []tree
	missing []*errdef.Error
}

// tree is one hierarchy that will hold groups of ours.
type tree struct {
	mount
	base        string   // below the mount: where the supervisor's directory goes
	controllers []string // what we use here
	place       place    // v2: how base must be prepared
}

func (t *tree) has(controller string) bool { return slices.Contains(t.controllers, controller) }

// env is what Detect looks at, so that a test can show it another machine.
type env struct {
	proc  string // where procfs is
	euid  int
	pid   int
	anyFS bool // tests: the mounts are plain directories
}

func hostEnv() env { return env{proc: "/proc", euid: os.Geteuid(), pid: os.Getpid()} }

// Detect finds the cgroup hierarchies of this machine (v2, v1 or hybrid), which
// of the needed controllers each has, and where below it the caller may make
// groups: as root at its top, or below the own cgroup when that is delegated
// (v2, xattr "user.delegate" or "trusted.delegate" of systemd); unprivileged
// only below the own, delegated cgroup.
//
// A controller that is missing is no error here but listed by [Layout.Missing];
// an error means that procfs cannot be read.
func Detect() (*Layout, error) { return detect(hostEnv()) }

func detect(e env) (*Layout, error) {
	mountText, err := os.ReadFile(e.proc + "/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	selfText, err := os.ReadFile(e.proc + "/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	mounts, err := parseMounts(mountText)
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	l := &Layout{env: e, mode: modeOf(mounts)}
	l.choose(mounts, parseSelf(selfText))
	return l, nil
}

func modeOf(mounts []mount) Mode {
	var v1, v2 bool
	for _, m := range mounts {
		v1 = v1 || m.version == 1
		v2 = v2 || m.version == 2
	}
	switch {
	case v1 && v2:
		return ModeHybrid
	case v2:
		return ModeV2
	case v1:
		return ModeV1
	}
	return ModeNone
}

// choose assigns every controller to a hierarchy and finds our place in it.
func (l *Layout) choose(mounts []mount, own map[string]string) {
	var onV2 []string
	v2, v2dir := l.openFirst(mounts, func(m mount) bool { return m.version == 2 })
	if v2dir != nil {
		defer v2dir.Close()
		there := readWords(v2dir, "cgroup.controllers")
		for _, c := range limitControllers() {
			if slices.Contains(there, c) {
				onV2 = append(onV2, c)
			}
		}
	}
	for _, c := range limitControllers() {
		if !slices.Contains(onV2, c) {
			l.addV1(mounts, own, c)
		}
	}
	if len(onV2) > 0 {
		l.addV2(v2, v2dir, own[""], onV2)
		return
	}
	l.addV1(mounts, own, usageController)
}

func (l *Layout) addV2(m mount, dir *sys.CgroupDir, own string, need []string) {
	rel, ok := below(m.root, own)
	if !ok {
		rel = ""
	}
	at, trouble := l.env.placeV2(dir, rel, need)
	if trouble != nil {
		for _, c := range need {
			if trouble.controller == "" || trouble.controller == c {
				l.miss(c, *trouble)
			}
		}
		return
	}
	l.trees = append(l.trees, tree{mount: m, base: at.rel, controllers: need, place: at})
}

func (l *Layout) addV1(mounts []mount, own map[string]string, c string) {
	m, dir := l.openFirst(mounts, func(m mount) bool { return m.version == 1 && slices.Contains(m.controllers, c) })
	if dir == nil {
		l.miss(c, trouble{what: "is not available", hint: hintNoController(l.mode, c)})
		return
	}
	defer dir.Close()
	for i := range l.trees {
		if l.trees[i].major == m.major && l.trees[i].minor == m.minor {
			l.trees[i].controllers = append(l.trees[i].controllers, c) // co-mounted
			return
		}
	}
	rel, ok := below(m.root, own[c])
	if !ok {
		rel = ""
	}
	base, trouble := l.env.placeV1(dir, rel)
	if trouble != nil {
		l.miss(c, *trouble)
		return
	}
	l.trees = append(l.trees, tree{mount: m, base: base, controllers: []string{c}})
}

// openFirst opens the first wanted mount that is really what mountinfo says (a
// later mount above it may hide it), one of the whole hierarchy before others.
func (l *Layout) openFirst(mounts []mount, want func(mount) bool) (mount, *sys.CgroupDir) {
	for _, whole := range []bool{true, false} {
		for _, m := range mounts {
			if !want(m) || (m.root == "/") != whole {
				continue
			}
			if dir, err := l.env.openMount(m); err == nil {
				return m, dir
			}
		}
	}
	return mount{}, nil
}

// openMount opens a mount point and checks that it is the hierarchy.
func (e env) openMount(m mount) (*sys.CgroupDir, error) {
	dir, err := sys.OpenCgroupMount(m.point)
	if err != nil || e.anyFS {
		return dir, err
	}
	magic, err := dir.Magic()
	major, minor, err2 := dir.Device()
	right := int64(sys.CgroupV1Magic)
	if m.version == 2 {
		right = sys.CgroupV2Magic
	}
	if err != nil || err2 != nil || magic != right || major != m.major || minor != m.minor {
		dir.Close()
		return nil, fmt.Errorf("%s: another file system is mounted over the cgroup hierarchy", m.point)
	}
	return dir, nil
}

// Mode says how this host mounts its hierarchies.
func (l *Layout) Mode() Mode { return l.mode }

// Controller is a controller that sandboxes will be limited or measured by.
type Controller struct {
	// Name is memory, cpu, pids or (v1) cpuacct.
	Name string
	// Version is the cgroup version of its hierarchy, 1 or 2.
	Version int
	// Under is the directory in which groups will be made, for people to read.
	Under string
}

// Controllers lists what was found usable, for `sbxrun check`.
func (l *Layout) Controllers() []Controller {
	var out []Controller
	for _, t := range l.trees {
		under := t.point
		if t.base != "." {
			under += "/" + t.base
		}
		for _, c := range t.controllers {
			out = append(out, Controller{Name: c, Version: t.version, Under: under})
		}
	}
	return out
}

// readWords reads a file of words such as cgroup.controllers; a file that
// cannot be read has none.
func readWords(d *sys.CgroupDir, rel string) []string {
	buf := make([]byte, 4096)
	n, err := d.Read(rel, buf)
	if err != nil {
		return nil
	}
	return strings.Fields(string(buf[:n]))
}

// Joins says what each group will hand to the launcher: the number of files of
// [Group.JoinFDs], and 1 where there is a [Group.CloneFD], else 0.
func (l *Layout) Joins() (files, clone int) {
	for _, t := range l.trees {
		if t.version == 2 {
			clone = 1
		} else {
			files++
		}
	}
	return files, clone
}

// MovesCaller tells whether [Open] or [NewSingle] may move the calling process
// into a cgroup of its own (v2, below the caller's own cgroup): processes that
// the caller starts before would be left behind and keep the controllers from
// being enabled.
func (l *Layout) MovesCaller() bool {
	for _, t := range l.trees {
		if t.place.moveSelf {
			return true
		}
	}
	return false
}
