package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

const (
	// removeFor bounds how long Remove waits for the kernel to empty a group:
	// the promise is 200 ms for the processes; a task in an uninterruptible
	// wait may need longer.
	removeFor = time.Second
	// removePause and removePauseMax are the first and the longest pause
	// between two tries: a killed task leaves within tens of microseconds.
	removePause    = 50 * time.Microsecond
	removePauseMax = 10 * time.Millisecond
)

// Group is the group of one sandbox in all hierarchies. Only [Parent.New] and
// [NewSingle] make one; the zero value does nothing but fail. Its methods may be called
// from any goroutine.
type Group struct {
	parent *Parent
	id     string

	mu    sync.Mutex
	made  []int // indexes of parent.trees that have our directory, in order
	join  []int // v1: "tasks" of each, for writing
	clone *sys.CgroupDir
	// denials is pids.events, kept open for the poll; -1 where there is none.
	denials int
	buf     [1024]byte // for one small file: cpu.stat is the longest, under 500
	gone    bool
}

// New makes the group id with its limits written, before any process can be
// inside. After an error nothing is left.
//
// Errors: invalid for the id or a limit, exists for an id in use, unsupported
// when the kernel lacks a limit or swap cannot be kept off, resource when the
// host has no room for another group.
func (p *Parent) New(id string, lim Limits) (*Group, error) {
	if err := checkID("id", id); err != nil {
		return nil, err
	}
	if err := lim.Validate(); err != nil {
		return nil, err
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, &errdef.Error{Code: errdef.State, Op: "cgroup-mkdir", Path: p.name, Msg: "the parent group is closed"}
	}
	return p.make(id, lim)
}

func (p *Parent) make(name string, lim Limits) (*Group, error) {
	g := &Group{parent: p, id: name, denials: -1}
	for i := range p.trees {
		if err := g.add(i, lim); err != nil {
			g.undo()
			return nil, err
		}
	}
	return g, nil
}

func (g *Group) add(i int, lim Limits) error {
	t := &g.parent.trees[i]
	if err := t.dir.Mkdir(g.id, dirMode); err != nil {
		return failure("cgroup-mkdir", err)
	}
	g.made = append(g.made, i)
	if err := t.limit(g.parent.env, g.id, lim); err != nil {
		return err
	}
	if t.version == 2 {
		dir, err := t.dir.OpenDir(g.id)
		if err != nil {
			return failure("cgroup-open", err)
		}
		g.clone = dir
	} else {
		fd, err := t.dir.OpenWrite(g.id + "/tasks")
		if err != nil {
			return failure("cgroup-open", err)
		}
		g.join = append(g.join, fd)
	}
	if t.has(pidsController) {
		fd, err := t.dir.OpenRead(g.id + "/pids.events")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failure("cgroup-open", err)
		}
		g.denials = fd
	}
	return nil
}

// JoinFDs returns the v1 files, open for writing, to each of which the
// launcher's child writes "0" to enter the group. The child must have one
// thread only; every one of the writes must succeed. The descriptors belong to
// g: do not close them, and do not use them after CloseJoin or Remove.
func (g *Group) JoinFDs() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.join
}

// CloneFD returns the descriptor of the v2 directory for clone3(2) with
// CLONE_INTO_CGROUP (Linux 5.7); ok is false on a host whose limits are all in
// v1. On a host with a mixture both it and [Group.JoinFDs] are needed. The
// descriptor belongs to g.
func (g *Group) CloneFD() (fd int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clone == nil {
		return -1, false
	}
	return g.clone.FD(), true
}

// CloseJoin releases the descriptors of JoinFDs once the program is inside.
func (g *Group) CloseJoin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closeJoin()
}

func (g *Group) closeJoin() {
	for _, fd := range g.join {
		sys.CgroupClose(fd)
	}
	g.join = nil
}

// Unthrottle lifts the CPU quota of a group whose processes are being killed:
// a death that waits for the next period's time can take seconds. It works
// until Remove; a removed group is no error.
func (g *Group) Unthrottle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return nil
	}
	if err := g.usable(); err != nil {
		return err
	}
	for _, i := range g.made {
		t := &g.parent.trees[i]
		if !t.has(cpuController) {
			continue
		}
		file, value := "cpu.max", "max"
		if t.version == 1 {
			file, value = "cpu.cfs_quota_us", "-1"
		}
		if err := t.dir.Write(g.id+"/"+file, value); err != nil {
			return failure("cgroup-unthrottle", err)
		}
	}
	return nil
}

// Kill kills every process in the group by cgroup.kill (Linux 5.14), relative
// to the directory that New made. done is false on v1, which has no such file:
// the caller then kills PID 1 of the sandbox's pid namespace by its pidfd, and
// the kernel the rest.
func (g *Group) Kill() (done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return false, err
	}
	if g.clone == nil {
		return false, nil
	}
	err = g.clone.Write("cgroup.kill", "1")
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, failure("cgroup-kill", err)
}

// Remove removes the group's directories and releases its descriptors. The
// processes must be dead or dying: while the kernel still empties the group it
// waits, at most a second. Afterwards it fails with code state, names the
// processes that remain and may be called again. Removing twice is no error.
func (g *Group) Remove() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return nil
	}
	if err := g.usable(); err != nil {
		return err
	}
	deadline := time.Now().Add(removeFor)
	for len(g.made) > 0 {
		last := len(g.made) - 1
		if err := g.parent.trees[g.made[last]].remove(g.id, deadline); err != nil {
			return err
		}
		g.made = g.made[:last]
	}
	g.release()
	if g.parent.single {
		g.parent.undo()
	}
	return nil
}

// remove removes the group id of ours below the supervisor's directory.
func (t *parentTree) remove(id string, deadline time.Time) error {
	err := removeDir(t.dir, id, deadline)
	if err == nil {
		return nil
	}
	e := &errdef.Error{Code: errdef.State, Op: "cgroup-remove", Path: t.dir.Path() + "/" + id, Err: err}
	if pids, perr := procs(t.dir, id); perr == nil && len(pids) > 0 {
		e.Msg = "processes remain (" + pidList(pids) + ")"
	}
	return e
}

// removeDir removes one directory, waiting while the kernel empties it.
func removeDir(d *sys.CgroupDir, name string, deadline time.Time) error {
	for pause := removePause; ; pause = min(2*pause, removePauseMax) {
		err := d.Rmdir(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

// undo takes back a New that failed half-way; nothing was ever inside.
func (g *Group) undo() {
	for _, i := range g.made {
		g.parent.trees[i].dir.Rmdir(g.id)
	}
	g.release()
}

func (g *Group) release() {
	g.closeJoin()
	g.clone.Close()
	if g.denials >= 0 {
		sys.CgroupClose(g.denials)
		g.denials = -1
	}
	g.clone, g.gone = nil, true
}

// usable refuses a group that New did not make, or that is removed.
func (g *Group) usable() error {
	switch {
	case g.parent == nil:
		return &errdef.Error{Code: errdef.Invalid, Op: opCgroups, Msg: "not a group of this supervisor"}
	case g.gone:
		return &errdef.Error{Code: errdef.State, Op: opCgroups, Path: g.id, Msg: "the group is removed"}
	}
	return nil
}

// limit writes the limits of the controllers that t has.
func (t *parentTree) limit(e env, id string, lim Limits) error {
	for _, w := range t.writes(lim) {
		err := t.dir.Write(id+"/"+w.file, w.value)
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist) && w.swap:
			if err := e.swapOff(); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrNotExist):
			return unenforceable(w.controller, trouble{
				what: fmt.Sprintf("of this kernel has no %s", w.file), errno: errnoOf(err),
				hint: "boot a kernel that has it (CONFIG_MEMCG, CONFIG_CFS_BANDWIDTH, CONFIG_CGROUP_PIDS)",
			})
		case errors.Is(err, syscall.EINVAL) && w.controller == cpuController:
			return unenforceable(w.controller, trouble{
				what: "refuses more than its parent group has", errno: syscall.EINVAL,
				hint: "ask for fewer CPUs, or raise the limit of the cgroup that sbxrun runs in",
			})
		default:
			return failure("cgroup-limit", err)
		}
	}
	return nil
}
