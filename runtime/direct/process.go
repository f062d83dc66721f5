package direct

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// Process is a sandbox: prepared, running or ended. It stands for its PID 1 and,
// with it, everything in its PID namespace.
type Process struct {
	sock     *os.File // the set-up socket
	plans    [2]*plan.Plan
	pidfd    *os.File // of PID 1
	program  *os.File // pidfd of the program
	exported [maxExport]*os.File
	exit     *report

	mu     sync.Mutex // held while a pidfd is used or closed
	closed bool
}

// maxExport is the launcher's MAX_EXPORT.
const maxExport = 8

// killTimeout bounds the wait for a killed PID namespace to be empty. The
// kernel needs well below a millisecond a process; what takes longer is stuck
// in the kernel, and is named.
const (
	killTimeout = 10 * time.Second
	killTries   = 3
	// promptDeath is what the end of an ordinary sandbox takes at most.
	promptDeath = 5 * time.Millisecond
)

// Run is what one run adds to a prepared sandbox. The descriptors stay the
// caller's.
type Run struct {
	Plan    *plan.Plan // the second plan, see [plan.Run]
	Stdio   [3]int     // the program's descriptors 0, 1 and 2
	FileFDs []int      // the input files
}

// Start starts the program in a prepared sandbox. It returns when the program
// is running or has failed to start, with everything undone in that case.
//
// Errors: [errdef.CommandNotFound] and [errdef.NotExecutable] for the program,
// [errdef.Setup] with the operation's name and errno for everything else; ESRCH
// where the sandbox was dead already or has been killed.
func (p *Process) Start(r Run) error {
	err := p.start(r)
	if err != nil {
		p.Discard()
	}
	return err
}

func (p *Process) start(r Run) error {
	data, err := r.Plan.Encode()
	if err != nil {
		return err
	}
	fds := append(make([]int, 0, 8), 0, r.Stdio[0], r.Stdio[1], r.Stdio[2])
	if fds = append(fds, r.FileFDs...); len(fds) >= maxFDs {
		return errdef.Field("file", fmt.Sprintf("too many input files: %d", len(r.FileFDs)), "at most "+strconv.Itoa(maxFDs-8))
	}
	if fds[0], err = sys.Memfd("sbxrun-plan", data, false); err != nil {
		return setupErr(err)
	}
	p.plans[1] = r.Plan
	sendErr := sendRequest(p.sock, fds, uint32(reqRun), 0, 0, uint32(len(fds)), 0, 0)
	sys.CloseAll(fds[:1])
	if sendErr != nil && !launcherGone(sendErr) {
		return sendErr
	}
	err = p.awaitStart() // a sandbox that is gone has said why
	if err == nil && sendErr != nil {
		err = sendErr
	}
	return err
}

// awaitStart reads reports until the program runs or its start has failed.
func (p *Process) awaitStart() error {
	p.sock.SetReadDeadline(time.Now().Add(setupTimeout))
	var failed error
	for {
		rep, fds, err := recvReport(p.sock)
		switch {
		case err == io.EOF && failed != nil:
			return failed
		case err == io.EOF:
			return &errdef.Error{Code: errdef.Setup, Op: "launch",
				Msg: "the sandbox was killed while it was set up", Errno: syscall.ESRCH, Hint: "the memory limit may be too small for the set-up"}
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &errdef.Error{Code: errdef.Setup, Op: "launch", Msg: "the set-up did not finish in " + setupTimeout.String()}
		case err != nil:
			return setupErr(err)
		}
		if err := p.take(rep, fds); err != nil {
			return err
		}
		switch rep.kind {
		case repFailed:
			failed = stepError(p.plans[rep.phase&1], rep)
		case repStarted:
			// The launcher's own report may still be under way; without the pidfd
			// nothing can be killed or waited for.
			for p.pidfd == nil {
				rep, fds, err := recvReport(p.sock)
				if err != nil {
					return setupErr(err)
				}
				if err := p.take(rep, fds); err != nil {
					return err
				}
			}
			p.sock.SetReadDeadline(time.Time{})
			return nil
		}
	}
}

// take stores what a report carries.
func (p *Process) take(rep report, fds []int) error {
	switch rep.kind {
	case repLaunched:
		if len(fds) == 1 && p.pidfd == nil {
			var err error
			if p.pidfd, err = sys.PollFile(fds[0], "pidfd"); err != nil {
				sys.CloseAll(fds)
			}
			return err
		}
	case repStarted:
		if len(fds) == 0 {
			break
		}
		p.program, fds = os.NewFile(uintptr(fds[0]), "pidfd"), fds[1:]
		for i := range p.exported {
			if rep.exported&(1<<i) != 0 && len(fds) > 0 {
				p.exported[i], fds = os.NewFile(uintptr(fds[0]), "sandbox"), fds[1:]
			}
		}
	case repExit:
		p.exit = &rep
	}
	sys.CloseAll(fds)
	return nil
}

// Discard ends a sandbox that was not started, or whose start has failed, and
// waits until it is gone.
func (p *Process) Discard() {
	p.Kill()
	// Without a pidfd there is the socket: a sandbox without a host ends itself,
	// and its last report is the end of the stream.
	for p.pidfd == nil {
		p.sock.SetReadDeadline(time.Now().Add(killTimeout))
		rep, fds, err := recvReport(p.sock)
		if err != nil || p.take(rep, fds) != nil {
			break
		}
		p.Kill()
	}
	p.sock.Close()
	if p.pidfd != nil {
		p.awaitDeath()
	}
	p.Close()
}

// Export returns the descriptor that the plan exported in a slot, nil without
// one. It stays the Process's until Close.
func (p *Process) Export(slot int) *os.File { return p.exported[slot] }

// Kill kills every process of the sandbox (the kernel does so when its PID 1
// dies, pid_namespaces(7)). It does not wait.
func (p *Process) Kill() error { return p.signal(&p.pidfd, syscall.SIGKILL) }

// Signal sends a signal to the program.
func (p *Process) Signal(sig syscall.Signal) error { return p.signal(&p.program, sig) }

// signal takes a process that is gone for no error.
func (p *Process) signal(pidfd **os.File, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *pidfd == nil || p.closed {
		return nil
	}
	err := sys.PidfdSignal(*pidfd, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// Wait blocks until no process of the sandbox is left, and returns the
// program's wait status. ok is false where PID 1 was killed before the program
// ended. slow, if not nil, is called when the program has ended but the rest of
// the sandbox is not gone soon after. Wait is called once.
func (p *Process) Wait(slow func()) (status syscall.WaitStatus, ok bool, err error) {
	for p.exit == nil {
		rep, fds, recvErr := recvReport(p.sock)
		if recvErr != nil {
			break // PID 1 is dead: nobody else holds the other end
		}
		if err := p.take(rep, fds); err != nil {
			return 0, false, err
		}
	}
	p.pidfd.SetReadDeadline(time.Now().Add(promptDeath))
	if sys.WaitReadable(p.pidfd) != nil && slow != nil {
		slow()
	}
	err = p.awaitDeath()
	if p.exit == nil {
		return 0, false, err
	}
	return syscall.WaitStatus(p.exit.value), true, err
}

// awaitDeath waits for the end of PID 1, which is the last process of its
// namespace to be gone.
func (p *Process) awaitDeath() error {
	for range killTries {
		p.pidfd.SetReadDeadline(time.Now().Add(killTimeout))
		err := sys.WaitReadable(p.pidfd)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		p.Kill()
	}
	return &errdef.Error{Code: errdef.State, Op: "kill", Msg: "a killed sandbox still has processes",
		Hint: "a process is stuck in the kernel (state D); see ps -o pid,state,wchan"}
}

// Close releases the descriptors.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.sock.Close()
	for _, f := range []*os.File{p.pidfd, p.program} {
		if f != nil {
			f.Close()
		}
	}
	for i, f := range p.exported {
		if f != nil {
			f.Close()
			p.exported[i] = nil
		}
	}
}

// stepError turns the launcher's (step, operation, errno) into a typed error.
func stepError(p *plan.Plan, rep report) error {
	errno := syscall.Errno(rep.value)
	e := &errdef.Error{Code: errdef.Setup, Op: rep.op.String(), Errno: errno,
		Msg: "cannot set up the sandbox"}
	var o plan.Operation
	if int(rep.step) < len(p.Ops) && p.Ops[rep.step].Op == rep.op {
		o = p.Ops[rep.step]
		e.Path = rep.op.String() + " " + o.Detail()
	}
	if rep.op == plan.OpBoot {
		e.Code, e.Msg = errdef.Unsupported, "the launcher cannot make namespaces of its own"
		e.Hint = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces) or run as root"
	}
	if len(o.Strings) == 0 { // a step of the launcher's own, or a report that fits no plan
		return e
	}
	switch rep.op {
	case plan.OpExec:
		e.Path, e.Msg = o.Strings[o.Args[0]], "cannot be executed in the sandbox"
		e.Code = errdef.NotExecutable
		if errno == syscall.ENOENT || errno == syscall.ENOTDIR {
			e.Code, e.Msg = errdef.CommandNotFound, "no such program in the sandbox"
		}
		if errno == syscall.E2BIG {
			e.Code, e.Msg = errdef.Invalid, "arguments and environment are too large"
		}
	case plan.OpChdir:
		e.Path, e.Msg, e.Code = "cwd "+o.Strings[0], "cannot be entered in the sandbox", errdef.Invalid
	case plan.OpCopy:
		e.Path, e.Msg = "file "+o.Strings[0], "cannot be copied into the workspace"
		if errno == syscall.ENOSPC {
			e.Hint = "raise the workspace limit"
		}
	case plan.OpBind:
		e.Path, e.Msg = "bind "+o.Strings[0]+" on /"+o.Strings[1], "cannot be mounted"
	}
	return e
}
