package runtime

import (
	"context"
	"errors"
	"io"
	"os"
	goruntime "runtime"
	"sync"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/stubs"
	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/runtime/plan"
	"github.com/sbxrun/sbxrun/seccomp"
)

// Sandbox is one running program with its whole process tree.
type Sandbox struct {
	id     string
	host   *Host
	policy Policy
	opts   RunOptions
	spec   *specs.Spec
	events *eventLog

	proc    Process
	group   *cgroups.Group
	server  *bridge.Server
	streams [2]*stream
	stdin   *os.File // the near end of the program's input, nil without one
	freeIDs func()
	cancel  context.CancelFunc // of the bridge's context
	started time.Time

	stopOnce sync.Once
	stop     chan struct{} // closed by the first stopper
	stopWhy  Reason
	done     chan struct{} // closed when result is complete
	result   *Result
}

// ID returns the sandbox's random id.
func (s *Sandbox) ID() string { return s.id }

// Wait waits for the end of the program and its clean-up, and returns the
// record. It may be called any number of times.
func (s *Sandbox) Wait() *Result {
	<-s.done
	return s.result
}

// Signal sends a signal to the main program. A program that has ended is no
// error.
func (s *Sandbox) Signal(sig syscall.Signal) error { return s.proc.Signal(sig) }

// Kill ends the sandbox at once, with the reason killed.
func (s *Sandbox) Kill() { s.end(ReasonKilled) }

// end makes the supervisor stop the sandbox; the first reason counts.
func (s *Sandbox) end(why Reason) {
	s.stopOnce.Do(func() {
		s.stopWhy = why
		close(s.stop)
	})
}

// Start starts the policy's program. When ctx ends the sandbox is killed. Wait
// must be called.
//
// Errors: the typed errors of [Policy.Validate], [errdef.CommandNotFound],
// [errdef.NotExecutable], [errdef.Setup]; after an error nothing is left.
func (h *Host) Start(ctx context.Context, p Policy, o RunOptions) (*Sandbox, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Sandbox{host: h, policy: p, opts: o, stop: make(chan struct{}), done: make(chan struct{})}
	s.events = &eventLog{sink: o.Events, labels: p.Labels}
	if err := h.register(s); err != nil {
		return nil, err
	}
	if err := s.launch(ctx); err != nil {
		h.unregister(s)
		s.result = RefusedResult(err)
		s.result.ID = s.id
		s.events.end(s.result)
		close(s.done)
		return nil, err
	}
	go s.supervise(ctx)
	return s, nil
}

func (h *Host) register(s *Sandbox) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return &errdef.Error{Code: errdef.State, Op: "start", Msg: "the host is closed"}
	}
	if h.parent == nil && h.used {
		return &errdef.Error{Code: errdef.State, Op: "start", Msg: "the host was opened for one sandbox (OneShot)"}
	}
	h.running[s], h.used = struct{}{}, true
	return nil
}

func (h *Host) unregister(s *Sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, s)
}

// launch builds the sandbox. Each step registers its undo.
func (s *Sandbox) launch(ctx context.Context) (err error) {
	var undo undoStack
	defer undo.run()
	rootless := s.host.engine.Capabilities().Rootless
	root, err := s.host.root(&s.policy, rootless)
	if err != nil {
		return err
	}
	s.spec = s.policy.spec(root.view, s.opts.Events != nil)
	files, fds, err := s.openFiles()
	undo.add(func() { sys.CloseAll(fds) })
	if err != nil {
		return err
	}
	ids, freeIDs, err := s.host.identities()
	if err != nil {
		return err
	}
	s.freeIDs = freeIDs
	undo.add(freeIDs)
	in, err := s.compileInput(root.view, ids, files)
	if err != nil {
		return err
	}
	recipe, err := s.recipe(root, in)
	if err != nil {
		return err
	}
	run, err := plan.Run(*in)
	if err != nil {
		return err
	}
	weakenPlan(run)
	box, err := s.prepared(recipe)
	if err != nil {
		return err
	}
	s.use(box)
	undo.add(func() { s.group.Remove() })
	if err := s.events.start(s.spec); err != nil {
		s.proc.Discard()
		return err
	}
	stdio, err := s.openStdio(ids)
	defer sys.CloseAll(stdio[3:])
	if err != nil {
		s.proc.Discard()
		return err
	}
	undo.add(func() { s.streams[0].close(); s.streams[1].close(); s.closeStdin() })
	req := StartRequest{Plan: run, Stdio: [3]int{stdio[0], stdio[1], stdio[2]}, FileFDs: fds}
	err = s.proc.Start(req)
	if box.waited && errors.Is(err, syscall.ESRCH) {
		// It has died while it waited, which is no fault of this run.
		if err = s.group.Remove(); err == nil {
			if box, err = s.host.prepare(recipe, s.id); err == nil {
				s.use(box)
				err = s.proc.Start(req)
			}
		}
	}
	if err != nil {
		return s.explainFailure(err)
	}
	s.started = time.Now()
	s.group.CloseJoin()
	if err := s.serveBridge(ctx, ids); err != nil {
		s.proc.Kill()
		s.proc.Wait(nil)
		s.proc.Close()
		return err
	}
	undo.release()
	sys.CloseAll(fds)
	s.host.warm.refill(s.host, recipe)
	return nil
}

// use makes a prepared sandbox this run's own.
func (s *Sandbox) use(p *prepared) {
	s.id, s.group, s.proc, s.events.sandbox = p.id, p.group, p.proc, p.id
}

// recipe compiles what the run has in common with others of its kind.
func (s *Sandbox) recipe(root *root, in *plan.Input) (*recipe, error) {
	p, err := plan.Prepare(*in)
	if err != nil {
		return nil, err
	}
	weakenPlan(p)
	shared, err := plan.NewShared(p)
	if err != nil {
		return nil, err
	}
	return &recipe{template: root.template, plan: shared,
		kind: sandboxKind{root.template.Key, shared.Key, s.policy.cgroupLimits()}}, nil
}

// prepared returns a sandbox to run in: one that waits for it, or a new one.
func (s *Sandbox) prepared(r *recipe) (*prepared, error) {
	if p := s.host.warm.take(r.kind); p != nil {
		return p, nil
	}
	return s.host.prepare(r, newID())
}

// explainFailure says so where the set-up failed because of a limit.
func (s *Sandbox) explainFailure(err error) error {
	if st, statErr := s.group.Stats(); statErr == nil && st.OOMKills > 0 {
		return &errdef.Error{Code: errdef.Setup, Op: "launch", Path: "memory",
			Msg: "the limit is too small for the sandbox's set-up", Err: err, Hint: "raise the memory limit"}
	}
	return err
}

func (p *Policy) cgroupLimits() cgroups.Limits {
	return cgroups.Limits{Memory: p.Limits.Memory, CPUQuota: cgroups.CPUs(p.Limits.CPUs),
		Pids: p.Limits.Pids + 1} // PID 1
}

func (s *Sandbox) compileInput(view *rootfs.View, ids plan.IDs, files []plan.InputFile) (*plan.Input, error) {
	filters, err := seccomp.Filters(goruntime.GOARCH)
	if err != nil {
		return nil, err
	}
	in := &plan.Input{Spec: s.spec, View: view, IDs: ids, Files: files,
		Filters: filters, HardLimit: hardLimit, RequestBytes: s.policy.requestBytes()}
	in.JoinFDs, in.FirstJoin = s.host.layout.Joins()
	if s.policy.Bridge.Tools != nil {
		generated, err := stubs.Files(s.policy.Bridge.Tools)
		if err != nil {
			return nil, err
		}
		for _, f := range generated {
			in.Bridge = append(in.Bridge, plan.BridgeFile{Path: f.Path, Mode: f.Mode, Data: f.Data})
		}
	}
	return in, nil
}

// openFiles opens the input files. The descriptors are returned also with an
// error. Data is passed as a sealed memfd, so that the launcher knows one kind.
func (s *Sandbox) openFiles() (files []plan.InputFile, fds []int, err error) {
	for _, f := range s.policy.Files {
		var fd int
		var size int64
		mode := f.Mode
		if f.Data != nil {
			if len(f.Data) > MaxFileBytes {
				return nil, fds, errdef.Field("file", "content of "+f.Target+" is too large", "at most 1 GiB")
			}
			size = int64(len(f.Data))
			fd, err = sys.Memfd("sbxrun-file", f.Data, false)
			if mode == 0 {
				mode = 0o644
			}
		} else {
			var perm uint32
			fd, size, perm, err = sys.OpenInput(f.Source, MaxFileBytes)
			if mode == 0 {
				mode = 0o644 | perm&0o100 | perm&0o100>>3 | perm&0o100>>6
			}
		}
		if err != nil {
			return nil, fds, &errdef.Error{Code: errdef.Invalid, Op: "policy", Path: "file", Err: err}
		}
		fds = append(fds, fd)
		files = append(files, plan.InputFile{Target: workspacePath(f.Target), Mode: mode, Size: size})
	}
	return files, fds, nil
}

// openStdio returns the program's three descriptors, then those to close after
// the launch.
func (s *Sandbox) openStdio(ids plan.IDs) ([]int, error) {
	out := make([]int, 3, 6)
	fail := func(err error) ([]int, error) {
		return out, &errdef.Error{Code: errdef.Resource, Op: "stdio", Msg: "cannot make the program's pipes", Err: err}
	}
	owner, group := ids.UID, ids.GID
	if ids.Rootless {
		owner, group = selfIDs()
	}
	if s.opts.Stdin != nil {
		far, near, err := sys.InputPipe("stdin", owner, group)
		if err != nil {
			return fail(err)
		}
		out[0], out = far, append(out, far)
		s.stdin = near
	} else {
		null, err := sys.OpenNull()
		if err != nil {
			return fail(err)
		}
		out[0], out = null, append(out, null)
	}
	for i, w := range []struct {
		name string
		to   io.Writer
	}{{"stdout", s.opts.Stdout}, {"stderr", s.opts.Stderr}} {
		near, far, err := sys.OutputPipe(w.name, owner, group)
		if err != nil {
			if i == 1 {
				s.streams[0].close()
			}
			s.closeStdin()
			return fail(err)
		}
		out[i+1], out = far, append(out, far)
		s.streams[i] = newStream(near, w.to, s.policy.Limits.OutputBytes, s.overflow)
	}
	return out, nil
}

// overflow is called once when a stream passes its limit.
func (s *Sandbox) overflow() {
	if s.policy.Limits.OutputOverflow == OverflowStop {
		s.end(ReasonOutputLimit)
	}
}

func (s *Sandbox) serveBridge(ctx context.Context, ids plan.IDs) error {
	if s.policy.Bridge.Tools == nil {
		return nil
	}
	uid := ids.UID
	if ids.Rootless {
		uid, _ = selfIDs()
	}
	ctx, s.cancel = context.WithDeadline(ctx, s.started.Add(s.policy.Limits.Timeout))
	var err error
	s.server, err = s.host.watcher.Serve(ctx, bridge.Config{
		SandboxID: s.id, Req: s.proc.Export(plan.SlotRequests), Resp: s.proc.Export(plan.SlotReplies), UID: uid,
		Tools: s.policy.Bridge.Tools, MaxCalls: s.policy.Bridge.MaxCalls, Concurrency: s.policy.Bridge.Concurrency,
		ToolTimeout: s.policy.Bridge.ToolTimeout, Approve: s.opts.Approve,
		Audit:   s.events.call,
		OnFlood: func() { s.end(ReasonBridgeFlood) },
		// What cannot be recorded must not go on; the sink's error is the result's.
		OnAuditFailure: func(error) { s.end(ReasonKilled) },
	})
	return err
}

// selfIDs are the ids that an unprivileged caller's sandbox has on the host.
func selfIDs() (uid, gid uint32) { return uint32(os.Geteuid()), uint32(os.Getegid()) }

// feed copies the caller's input to the program. A program that is gone or has
// closed its end makes the pipe fail, which ends the copy.
func (s *Sandbox) feed() {
	_, _ = io.Copy(s.stdin, s.opts.Stdin)
	s.closeStdin()
}

func (s *Sandbox) closeStdin() {
	if s.stdin != nil {
		s.stdin.Close()
	}
}
