package runtime

import (
	"os"
	"syscall"

	"github.com/sbxrun/sbxrun/runtime/direct"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// Engine builds sandboxes from compiled plans. An engine refuses, with code
// unsupported, what it cannot enforce.
type Engine interface {
	// Name is the engine's name in records.
	Name() string
	// Capabilities says what the engine can do besides running a program.
	Capabilities() Capabilities
	// Prepare starts ahead what the first sandbox will need; an error shows again
	// there.
	Prepare() error
	// Load builds a template ahead of the sandboxes that use it.
	Load(template *plan.Shared) error
	// Create builds a sandbox up to where it waits for its program.
	Create(r CreateRequest) (Process, error)
	// Close ends all its sandboxes.
	Close() error
}

// Capabilities are an engine's optional verbs.
type Capabilities struct {
	// Exec, Pause and Checkpoint tell whether further programs can be started
	// in a running sandbox, whether it can be frozen, and whether saved.
	Exec, Pause, Checkpoint bool
	// Rootless tells whether the engine works without privilege here.
	Rootless bool
}

// CreateRequest is one sandbox to create. The descriptors stay the caller's.
type CreateRequest struct {
	Template, Plan *plan.Shared
	CgroupFD       int   // cgroup v2 directory, -1 = none
	JoinFDs        []int // cgroup v1 files to enter
}

// StartRequest is one program to start in a created sandbox. The descriptors
// stay the caller's.
type StartRequest struct {
	Plan    *plan.Plan
	Stdio   [3]int
	FileFDs []int // input files
}

// Process is a sandbox of an engine. Exactly one of Start and Discard is called
// on a created one; a start that fails has discarded it.
type Process interface {
	Start(r StartRequest) error
	// Discard ends a sandbox that was not started and waits until it is gone.
	Discard()
	// Kill kills every process of the sandbox; it does not wait.
	Kill() error
	// Wait returns the program's wait status when no process is left; ok is
	// false where the sandbox died before its program ended. slow, if not nil, is
	// called when the program has ended but the rest takes its time to die.
	Wait(slow func()) (status syscall.WaitStatus, ok bool, err error)
	// Signal sends a signal to the main program.
	Signal(sig syscall.Signal) error
	// Export returns a descriptor that the plan handed out, nil without one.
	Export(slot int) *os.File
	// Close releases the descriptors.
	Close()
}

// directEngine adapts package direct.
type directEngine struct{ launcher *direct.Launcher }

func newDirectEngine(oneShot bool) (Engine, error) {
	l, err := direct.New(oneShot)
	if err != nil {
		return nil, err
	}
	return &directEngine{l}, nil
}

func (*directEngine) Name() string { return "direct" }

func (e *directEngine) Capabilities() Capabilities {
	return Capabilities{Rootless: e.launcher.Rootless()}
}

func (e *directEngine) Prepare() error { return e.launcher.Spawn() }

func (e *directEngine) Load(t *plan.Shared) error { return e.launcher.Load(t) }

func (e *directEngine) Create(r CreateRequest) (Process, error) {
	p, err := e.launcher.Prepare(direct.Request{Template: r.Template, Plan: r.Plan, CgroupFD: r.CgroupFD, JoinFDs: r.JoinFDs})
	if err != nil {
		return nil, err
	}
	return directProcess{p}, nil
}

// directProcess adapts [direct.Process].
type directProcess struct{ *direct.Process }

func (p directProcess) Start(r StartRequest) error {
	return p.Process.Start(direct.Run{Plan: r.Plan, Stdio: r.Stdio, FileFDs: r.FileFDs})
}

func (e *directEngine) Close() error { return e.launcher.Close() }
