package runtime

import (
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// Reason says how a run ended. A limit that was exceeded is always named, also
// where the program went on and exited by itself.
type Reason string

// The reasons. A run that never started has [ReasonRefused] (bad input, or a
// control that cannot be enforced here) or [ReasonSetupFailed].
const (
	ReasonExited      Reason = "exited"
	ReasonSignaled    Reason = "signaled"
	ReasonTimeout     Reason = "timeout"
	ReasonOOM         Reason = "oom"
	ReasonPidsLimit   Reason = "pids-limit"
	ReasonOutputLimit Reason = "output-limit"
	ReasonBridgeFlood Reason = "bridge-flood"
	ReasonKilled      Reason = "killed"
	ReasonSetupFailed Reason = "setup-failed"
	ReasonRefused     Reason = "refused"
)

// Result is the authoritative record of one run; its JSON form is what
// `sbxrun do --result` writes.
type Result struct {
	ID      string `json:"id"`
	Started bool   `json:"started"`
	Reason  Reason `json:"reason"`
	// ExitCode is the program's own, nil where a signal ended it or it did not
	// start.
	ExitCode *int `json:"exit_code"`
	// Signal is the number of the signal that ended the program, nil without one.
	Signal *int        `json:"signal"`
	Usage  Usage       `json:"usage"`
	Output OutputUsage `json:"output"`
	// NetworkDenials counts the attempts to leave the sandbox: the namespace's
	// own IP counters (OutNoRoutes, IPv4 and IPv6).
	NetworkDenials uint64 `json:"network_denials"`
	// OOMKills counts processes killed at the memory limit, PidsDenied the
	// forks and clones refused at the pids limit.
	OOMKills   uint64 `json:"oom_kills"`
	PidsDenied uint64 `json:"pids_denied"`
	// ToolCalls counts the bridge's calls by tool and by outcome code ("ok"
	// included).
	ToolCalls ToolCalls `json:"tool_calls"`
	// Value is what the program handed back with set_result, or on a last
	// output line "RESULT: JSON"; nil without one.
	Value json.RawMessage `json:"result,omitempty"`
	// Files are the outputs fetched, by their path inside.
	Files []FetchedFile `json:"files,omitempty"`
	Error *ErrorRecord  `json:"error,omitempty"`
}

// Usage is what the whole process tree consumed.
type Usage struct {
	Wall time.Duration `json:"wall_ns"`
	CPU  time.Duration `json:"cpu_ns"`
	// MemoryPeak is in bytes, PidsPeak in tasks; nil where the kernel keeps no
	// such figure.
	MemoryPeak *int64 `json:"memory_peak"`
	PidsPeak   *int64 `json:"pids_peak"`
}

// OutputUsage counts all bytes that the program wrote, the dropped ones
// included.
type OutputUsage struct {
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	Truncated   bool  `json:"truncated"`
}

// ToolCalls is the bridge's account of a run.
type ToolCalls struct {
	Total   int            `json:"total"`
	Refused int            `json:"refused"`
	ByTool  map[string]int `json:"by_tool,omitempty"`
	ByCode  map[string]int `json:"by_code,omitempty"`
}

// FetchedFile is one file that left the sandbox by [Policy.Outputs].
type FetchedFile struct {
	Path string `json:"path"`
	Dest string `json:"dest,omitempty"`
	Size int64  `json:"size"`
	// Data is the content where the output has no destination.
	Data []byte `json:"-"`
}

// ErrorRecord is an error in the result record.
type ErrorRecord struct {
	Code    errdef.Code `json:"code"`
	Op      string      `json:"op,omitempty"`
	Path    string      `json:"path,omitempty"`
	Message string      `json:"message"`
	Errno   string      `json:"errno,omitempty"`
	Hint    string      `json:"hint,omitempty"`
}

// NewErrorRecord describes err; an error without a type is recorded as
// internal.
func NewErrorRecord(err error) *ErrorRecord {
	if err == nil {
		return nil
	}
	r := &ErrorRecord{Code: errdef.Internal, Message: err.Error()}
	var e *errdef.Error
	if errors.As(err, &e) {
		r.Code, r.Op, r.Path, r.Hint = e.Code, e.Op, e.Path, e.Hint
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		r.Errno = sys.ErrnoName(errno)
	}
	return r
}

// Exit statuses of the sbxrun command beside the program's own.
const (
	StatusTimeout       = 124
	StatusRefused       = 125
	StatusNotExecutable = 126
	StatusNotFound      = 127
	statusSignalBase    = 128
)

// ExitStatus returns the exit status of `sbxrun do` for the result: the
// program's own, or one of the Status constants, or 128 plus the signal.
func (r *Result) ExitStatus() int {
	switch {
	case r.Reason == ReasonTimeout:
		return StatusTimeout
	case !r.Started:
		if r.Error != nil {
			switch r.Error.Code {
			case errdef.CommandNotFound:
				return StatusNotFound
			case errdef.NotExecutable:
				return StatusNotExecutable
			}
		}
		return StatusRefused
	case r.Signal != nil:
		return statusSignalBase + *r.Signal
	case r.ExitCode != nil && *r.ExitCode == 0 && r.Error != nil:
		return StatusRefused // the program is content, but an output could not be fetched
	case r.ExitCode != nil:
		return *r.ExitCode
	}
	return StatusRefused
}
