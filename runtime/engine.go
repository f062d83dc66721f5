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
	// Create builds a sandbox and starts its program.
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
	Template *plan.Shared
	Sandbox  *plan.Plan
	Stdio    [3]int
	CgroupFD int   // cgroup v2 directory, -1 = none
	JoinFDs  []int // cgroup v1 files to enter
	FileFDs  []int // input files
}

// Process is a sandbox that an engine started.
type Process interface {
	// Kill kills every process of the sandbox; it does not wait.
	Kill() error
	// Wait returns the program's wait status when no process is left; ok is
	// false where the sandbox died before its program ended.
	Wait() (status syscall.WaitStatus, ok bool, err error)
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
	l, err := direct.Start(oneShot)
	if err != nil {
		return nil, err
	}
	return &directEngine{l}, nil
}

func (*directEngine) Name() string { return "direct" }

func (e *directEngine) Capabilities() Capabilities {
	return Capabilities{Rootless: e.launcher.Rootless()}
}

func (e *directEngine) Create(r CreateRequest) (Process, error) {
	return e.launcher.Launch(direct.Request{Template: r.Template, Sandbox: r.Sandbox, Stdio: r.Stdio,
		CgroupFD: r.CgroupFD, JoinFDs: r.JoinFDs, FileFDs: r.FileFDs})
}

func (e *directEngine) Close() error { return e.launcher.Close() }
