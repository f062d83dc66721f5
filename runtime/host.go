// Package runtime runs untrusted programs in sandboxes that have no network and
// reach exactly the tools that the host offers, through files.
//
// A [Host] is made once per process; each [Policy] that it is given becomes one
// sandbox:
//
//	host, err := runtime.Open(runtime.Options{})
//	defer host.Close()
//	result, err := host.Run(ctx, runtime.NewPolicy("python3", "-c", "print(1)"), runtime.RunOptions{Stdout: os.Stdout})
//
// What cannot be enforced on this host is refused with an [errdef.Error] before
// anything starts. The package needs no cgo, no re-exec of the program that
// embeds it, and no daemon.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// Options configure a [Host].
type Options struct {
	// StateDir holds the supervisor's record while it lives; "" means
	// /run/sbxrun for root and $XDG_RUNTIME_DIR/sbxrun otherwise.
	StateDir string
	// OneShot says that the host will start a single sandbox, so that nothing is
	// kept ready for a next one; a second Start is refused.
	OneShot bool
	// First is the policy of the first sandbox where it is known already: its root
	// file system is then made while the rest of the host is prepared. nil is
	// always right.
	First *Policy
	// Warm is the number of sandboxes that are kept ready: built but for their
	// program, of the kind (root file system, limits, tools) that was run last,
	// each used once. A run that finds one of its kind does not wait for
	// that part of the set-up. Each costs a process, its namespaces and about 200 KiB of kernel
	// memory. 0 to MaxWarm; 0 keeps none.
	Warm int
}

// MaxWarm bounds the sandboxes kept ready.
const MaxWarm = 1024

// Host builds and supervises sandboxes: one launcher process, one inotify
// instance, one parent cgroup. It is safe for concurrent use; Close it to leave
// nothing behind.
type Host struct {
	engine  Engine
	self    *supervisor
	parent  *cgroups.Parent // nil for a OneShot host
	layout  *cgroups.Layout
	watcher *bridge.Watcher
	warm    warmPool

	background sync.WaitGroup // what Open has begun

	mu      sync.Mutex
	closed  bool
	used    bool // a sandbox was started
	running map[*Sandbox]struct{}
	ids     idPool
	roots   map[rootfs.Identity]*root // of the host view
}

// root is a root file system with its template.
type root struct {
	view     *rootfs.View
	template *plan.Shared
}

// RunOptions are the parts of one run that are no policy.
type RunOptions struct {
	// Stdin is what the program reads; nil means /dev/null. It is copied through
	// a pipe, never handed over: a directory, a socket or a terminal as descriptor
	// 0 would be a way out of the sandbox. A read that blocks keeps one goroutine
	// until it returns.
	Stdin io.Reader
	// Stdout and Stderr get the program's output as it comes, up to the output
	// limit each; nil discards it (it is counted all the same). A Writer that
	// fails or blocks never keeps the sandbox alive past its deadline.
	Stdout, Stderr io.Writer
	// Approve is asked before each tool call; nil allows what the policy allows.
	Approve func(context.Context, bridge.Call) (bridge.Decision, error)
	// Events receives the audit events in order; an error from the start event
	// refuses the run, a later one is recorded in the result. nil discards them.
	Events func(Event) error
}

// Open probes the host and starts what all its sandboxes share. Close releases
// it.
//
// Errors: [errdef.Unsupported] with a hint where the host cannot enforce what
// every sandbox needs.
func Open(opts Options) (*Host, error) {
	h := &Host{running: map[*Sandbox]struct{}{}, roots: map[rootfs.Identity]*root{}}
	var undo undoStack
	defer undo.run()
	if opts.Warm < 0 || opts.Warm > MaxWarm || (opts.Warm > 0 && opts.OneShot) {
		return nil, errdef.Field("Warm", strconv.Itoa(opts.Warm), "0 to 1024, and 0 with OneShot")
	}
	h.warm.size = opts.Warm

	dir, err := stateDir(opts)
	if err != nil {
		return nil, err
	}
	if h.layout, err = cgroups.Detect(); err != nil {
		return nil, err
	}
	if missing := h.layout.Missing(); len(missing) > 0 {
		return nil, missing[0]
	}
	if err := checkCaller(); err != nil {
		return nil, err
	}
	if h.engine, err = newDirectEngine(opts.OneShot); err != nil {
		return nil, err
	}
	undo.add(func() { h.background.Wait(); h.engine.Close() })
	if !h.layout.MovesCaller() { // else the launcher must be born where the caller is moved to
		h.background.Go(func() { h.ahead(opts.First) })
	}
	// Best done now: nothing depends on it, and its failure is not this run's.
	_, _ = reap(dir, h.layout, reapAtOpen)
	if os.Geteuid() == 0 && dir != machineDir {
		_, _ = reapClaims(h.layout, reapAtOpen)
	}
	if h.self, err = claim(dir); err != nil {
		return nil, err
	}
	undo.add(func() { h.self.release() })
	if !opts.OneShot {
		if h.parent, err = cgroups.Open(h.layout, h.self.id); err != nil {
			return nil, err
		}
		undo.add(func() { h.parent.Close() })
	}
	if h.watcher, err = bridge.NewWatcher(); err != nil {
		return nil, err
	}
	undo.add(func() { h.watcher.Close() })
	h.ids = idPool{first: h.self.firstID}
	undo.release()
	return h, nil
}

// ahead starts the engine and makes the first sandbox's root. What fails here
// fails again, and is reported, when the sandbox is started.
func (h *Host) ahead(first *Policy) {
	if h.engine.Prepare() != nil || first == nil {
		return
	}
	if r, err := h.root(first, h.engine.Capabilities().Rootless); err == nil {
		_ = h.engine.Load(r.template)
	}
}

// closeBatch is the number of sandboxes that are killed at the same time.
const closeBatch = 64

// checkCaller refuses an unprivileged caller whose supplementary groups would
// stay with the program: setgroups(2) is not available without privilege.
func checkCaller() error {
	if os.Geteuid() == 0 {
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return &errdef.Error{Code: errdef.Setup, Op: "identity", Err: err}
	}
	for _, g := range groups {
		if g != os.Getegid() {
			return &errdef.Error{Code: errdef.Unsupported, Op: "identity", Path: "supplementary groups",
				Msg:  fmt.Sprintf("the caller's group %d cannot be dropped without privilege", g),
				Hint: "run as root, or as a user without supplementary groups (setpriv --clear-groups)"}
		}
	}
	return nil
}

// Close ends the sandboxes that still run and releases everything.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	var all []*Sandbox
	for s := range h.running {
		all = append(all, s)
	}
	h.mu.Unlock()
	// Not all at once: the kernel frees the filters of what dies through one lock,
	// and a queue of more than a thousand has been seen to block it for good.
	for batch := range slices.Chunk(all, closeBatch) {
		for _, s := range batch {
			s.Kill()
		}
		for _, s := range batch {
			s.Wait()
		}
	}
	h.background.Wait()
	h.warm.close()
	errs := []error{h.engine.Close(), h.watcher.Close()}
	if h.parent != nil {
		errs = append(errs, h.parent.Close())
	}
	return errors.Join(append(errs, h.self.release())...)
}

// group makes a sandbox's cgroup.
func (h *Host) group(id string, l cgroups.Limits) (*cgroups.Group, error) {
	if h.parent == nil {
		return cgroups.NewSingle(h.layout, h.self.id, l)
	}
	return h.parent.New(id, l)
}

// Run starts the policy's program and waits for its end. The result is never
// nil; the error is non-nil exactly when the program did not start, and is then
// also the result's Error. When ctx ends the sandbox is killed (reason killed).
func (h *Host) Run(ctx context.Context, p Policy, o RunOptions) (*Result, error) {
	s, err := h.Start(ctx, p, o)
	if err != nil {
		return RefusedResult(err), err
	}
	return s.Wait(), nil
}

// RefusedResult is the record of a run that never started, for its error.
func RefusedResult(err error) *Result {
	reason := ReasonRefused
	for _, code := range []errdef.Code{errdef.Setup, errdef.Internal, errdef.Resource, errdef.CommandNotFound, errdef.NotExecutable} {
		if errdef.Is(err, code) {
			reason = ReasonSetupFailed
		}
	}
	return &Result{Reason: reason, Error: NewErrorRecord(err)}
}

// root returns the policy's root file system. The host's own view is read once
// per identity: what is in /usr may change, the places do not.
func (h *Host) root(p *Policy, rootless bool) (*root, error) {
	if p.Rootfs.Dir != "" || len(p.Binds) > 0 {
		return newRoot(p, rootless)
	}
	id := rootfs.Identity{UID: p.UID, GID: p.GID, Hostname: p.Hostname}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.roots[id]; r != nil {
		return r, nil
	}
	r, err := newRoot(p, rootless)
	if err == nil && len(h.roots) < maxCachedRoots {
		h.roots[id] = r
	}
	return r, err
}

// maxCachedRoots bounds the cache; identities beyond it cost a few dozen
// lstat(2) calls each time.
const maxCachedRoots = 64

func newRoot(p *Policy, rootless bool) (*root, error) {
	v, err := buildView(p)
	if err != nil {
		return nil, err
	}
	template := plan.Template(v, rootless)
	weakenTemplate(template)
	t, err := plan.NewShared(template)
	if err != nil {
		return nil, err
	}
	return &root{v, t}, nil
}

func buildView(p *Policy) (v *rootfs.View, err error) {
	if p.Rootfs.Dir != "" {
		v, err = rootfs.Directory(p.Rootfs.Dir)
	} else {
		v, err = rootfs.Host(rootfs.Identity{UID: p.UID, GID: p.GID, Hostname: p.Hostname})
	}
	for _, b := range p.Binds {
		if err == nil {
			err = v.AddBind(b.Source, b.Target)
		}
	}
	return v, err
}

// identities returns the ids of one sandbox and the function that gives them
// back.
func (h *Host) identities() (plan.IDs, func(), error) {
	if os.Geteuid() != 0 {
		return plan.IDs{Rootless: true}, func() {}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.ids.take()
	if err != nil {
		return plan.IDs{}, nil, err
	}
	id := h.ids.first + n*idsPerSandbox
	return plan.IDs{UID: id, GID: id, SupervisorUID: id + 1, SupervisorGID: id + 1}, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ids.free = append(h.ids.free, n)
	}, nil
}

// idPool hands out the pairs of ids of this supervisor's block.
type idPool struct {
	first uint32
	next  uint32
	free  []uint32
}

func (p *idPool) take() (uint32, error) {
	if p.next < idBlock/idsPerSandbox { // fresh ones first: a used id rests as long as possible
		p.next++
		return p.next - 1, nil
	}
	if len(p.free) == 0 {
		return 0, &errdef.Error{Code: errdef.Resource, Op: "identity", Msg: "all host ids of this supervisor are in use"}
	}
	n := p.free[0]
	p.free = p.free[1:]
	return n, nil
}

// undoStack runs what was registered, last first, unless it is released.
type undoStack struct{ steps []func() }

func (u *undoStack) add(f func()) { u.steps = append(u.steps, f) }

func (u *undoStack) release() { u.steps = nil }

func (u *undoStack) run() {
	for i := len(u.steps) - 1; i >= 0; i-- {
		u.steps[i]()
	}
	u.steps = nil
}

// hardLimit is what plans ask for the caller's own limits.
func hardLimit(resource uint64) uint64 { return sys.HardLimit(resource) }
