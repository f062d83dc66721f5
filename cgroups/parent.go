package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// prefix is of every directory that this package makes or removes.
const prefix = "sbxrun-"

// dirMode keeps other users of the host from reading a sandbox's counters.
const dirMode = 0o700

// Parent is a supervisor's directory in each hierarchy, below which it makes
// the groups of its sandboxes. Its methods may be called from any goroutine.
type Parent struct {
	name  string
	env   env
	trees []parentTree
	// single: there is one group, and it has the supervisor's name (NewSingle).
	single bool

	mu     sync.RWMutex // held for writing by Close only
	closed bool
}

type parentTree struct {
	tree
	base  *sys.CgroupDir
	dir   *sys.CgroupDir // base/sbxrun-<id>, or base itself for a single group
	moved bool           // we are in base/hostLeaf
}

// Open makes the directories sbxrun-<supervisorID> that l has the places for.
// It must run before the caller starts processes of its own where the own v2
// cgroup is used: only the calling process itself is ever moved.
//
// Errors: unsupported with a hint when a controller is missing (the first of
// [Layout.Missing]), invalid for the id, exists when another supervisor has it.
func Open(l *Layout, supervisorID string) (*Parent, error) {
	if err := checkID("supervisor", supervisorID); err != nil {
		return nil, err
	}
	if len(l.missing) > 0 {
		return nil, l.missing[0]
	}
	p := &Parent{name: prefix + supervisorID, env: l.env}
	for _, t := range l.trees {
		if err := p.add(t); err != nil {
			p.undo()
			return nil, err
		}
	}
	return p, nil
}

// NewSingle is Open and New for a supervisor with one sandbox in its whole
// life, as `sbxrun do` is: the directory sbxrun-<supervisorID> is the group
// itself, which saves a level of directories in each hierarchy (0.2 ms on v1).
// Remove releases all. Errors are those of [Open] and [Parent.New].
func NewSingle(l *Layout, supervisorID string, lim Limits) (*Group, error) {
	if err := checkID("supervisor", supervisorID); err != nil {
		return nil, err
	}
	if err := lim.Validate(); err != nil {
		return nil, err
	}
	if len(l.missing) > 0 {
		return nil, l.missing[0]
	}
	p := &Parent{name: prefix + supervisorID, env: l.env, single: true}
	for _, t := range l.trees {
		pt, err := p.addBase(t)
		if err != nil {
			p.undo()
			return nil, err
		}
		pt.dir = pt.base
	}
	g, err := p.make(p.name, lim)
	if err != nil {
		p.undo()
		return nil, err
	}
	return g, nil
}

// addBase opens the place in a hierarchy and prepares it for children.
func (p *Parent) addBase(t tree) (*parentTree, error) {
	base, err := p.env.openBase(t)
	if err != nil {
		return nil, failure("cgroup-open", err)
	}
	p.trees = append(p.trees, parentTree{tree: t, base: base})
	pt := &p.trees[len(p.trees)-1]
	if t.version == 2 {
		if err := pt.prepare(p.env); err != nil {
			return nil, err
		}
	}
	return pt, nil
}

func (p *Parent) add(t tree) error {
	pt, err := p.addBase(t)
	if err != nil {
		return err
	}
	if err := pt.base.Mkdir(p.name, dirMode); err != nil {
		return failure("cgroup-mkdir", err)
	}
	if pt.dir, err = pt.base.OpenDir(p.name); err != nil {
		pt.base.Rmdir(p.name) // made a moment ago and empty
		return failure("cgroup-open", err)
	}
	if t.version == 2 {
		return enable(pt.dir, t.controllers)
	}
	if t.has(memoryController) {
		// The first group with a socket limit makes the kernel patch its code
		// (a static branch, 130 us), and the last one back: one that stays saves
		// that for each sandbox. -1 is no limit, and New reports a failure.
		pt.dir.Write(socketLimitV1, "-1")
	}
	return nil
}

// openBase opens the directory in which supervisors' directories are.
func (e env) openBase(t tree) (*sys.CgroupDir, error) {
	top, err := e.openMount(t.mount)
	if err != nil {
		return nil, err
	}
	if t.base == "." {
		return top, nil
	}
	defer top.Close()
	return top.OpenDir(t.base)
}

// prepare lets the children of a v2 base have controllers.
func (t *parentTree) prepare(e env) error {
	if t.place.moveSelf {
		if err := t.base.Mkdir(hostLeaf, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return failure("cgroup-mkdir", err)
		}
		if err := t.base.Write(hostLeaf+"/cgroup.procs", strconv.Itoa(e.pid)); err != nil {
			t.base.Rmdir(hostLeaf)
			return failure("cgroup-move-self", err)
		}
		t.moved = true
	}
	return enable(t.base, t.place.enable)
}

func enable(d *sys.CgroupDir, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	if err := d.Write("cgroup.subtree_control", "+"+strings.Join(controllers, " +")); err != nil {
		what := fmt.Sprintf("cannot be enabled in cgroup %s", d.Path())
		return unenforceable(controllers[0], trouble{what: what, errno: errnoOf(err), hint: hintBusy})
	}
	return nil
}

// leave undoes prepare's move: the children lose the controllers that we
// enabled, then the caller goes back and the leaf is removed. When another
// supervisor still uses them, the kernel refuses (EBUSY) and we stay. Controllers
// enabled without a move stay enabled: somebody may rely on them by now.
func (t *parentTree) leave(e env) {
	if !t.moved {
		return
	}
	if on := t.place.enable; len(on) > 0 {
		if t.base.Write("cgroup.subtree_control", "-"+strings.Join(on, " -")) != nil {
			return
		}
	}
	if t.base.Write("cgroup.procs", strconv.Itoa(e.pid)) == nil {
		t.base.Rmdir(hostLeaf)
		t.moved = false
	}
}

// Close removes the directories and releases their descriptors. When groups
// are still inside, it fails with code state and may be called again.
func (p *Parent) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	for i := range p.trees {
		t := &p.trees[i]
		if t.dir == nil {
			continue // removed by an earlier Close
		}
		if err := t.base.Rmdir(p.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			ids, _ := t.dir.Dirs()
			return &errdef.Error{
				Code: errdef.State, Op: "cgroup-close", Path: t.dir.Path(),
				Msg: fmt.Sprintf("groups remain inside (%s)", strings.Join(ids, ", ")), Err: err,
			}
		}
		t.dir.Close()
		t.dir = nil
	}
	p.undo()
	p.closed = true
	return nil
}

// undo releases everything; directories that are not empty stay.
func (p *Parent) undo() {
	for i := range p.trees {
		t := &p.trees[i]
		if t.dir != nil && t.dir != t.base {
			t.base.Rmdir(p.name)
			t.dir.Close()
		}
		t.leave(p.env)
		t.base.Close()
	}
}
