package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

func ptr[T any](v T) *T { return &v }

func TestExitStatus(t *testing.T) {
	refusedWith := func(c errdef.Code) Result {
		return *RefusedResult(&errdef.Error{Code: c})
	}
	for name, c := range map[string]struct {
		r    Result
		want int
	}{
		"exit 0":           {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(0)}, 0},
		"exit 3":           {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(3)}, 3},
		"own 124":          {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(124)}, 124},
		"own 125":          {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(125)}, 125},
		"own 127":          {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(127)}, 127},
		"signal":           {Result{Started: true, Reason: ReasonSignaled, Signal: ptr(11)}, 139},
		"timeout":          {Result{Started: true, Reason: ReasonTimeout, Signal: ptr(9)}, 124},
		"timeout, exit 0":  {Result{Started: true, Reason: ReasonTimeout, ExitCode: ptr(0)}, 124},
		"killed":           {Result{Started: true, Reason: ReasonKilled, Signal: ptr(9)}, 137},
		"oom, exit 0":      {Result{Started: true, Reason: ReasonOOM, ExitCode: ptr(0)}, 0},
		"output lost":      {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(0), Error: &ErrorRecord{}}, 125},
		"exit 1, lost":     {Result{Started: true, Reason: ReasonExited, ExitCode: ptr(1), Error: &ErrorRecord{}}, 1},
		"refused":          {refusedWith(errdef.Invalid), 125},
		"unsupported":      {refusedWith(errdef.Unsupported), 125},
		"set-up":           {refusedWith(errdef.Setup), 125},
		"no program":       {refusedWith(errdef.CommandNotFound), 127},
		"no executable":    {refusedWith(errdef.NotExecutable), 126},
		"nothing is known": {Result{}, 125},
		"started, nothing": {Result{Started: true}, 125},
	} {
		if got := c.r.ExitStatus(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestRefusedResult(t *testing.T) {
	for code, want := range map[errdef.Code]Reason{
		errdef.Invalid: ReasonRefused, errdef.Unsupported: ReasonRefused, errdef.State: ReasonRefused, errdef.Permission: ReasonRefused,
		errdef.Setup: ReasonSetupFailed, errdef.Internal: ReasonSetupFailed, errdef.Resource: ReasonSetupFailed,
		errdef.CommandNotFound: ReasonSetupFailed, errdef.NotExecutable: ReasonSetupFailed,
	} {
		r := RefusedResult(fmt.Errorf("x: %w", &errdef.Error{Code: code}))
		if r.Reason != want || r.Started || r.Error.Code != code || r.ExitCode != nil || r.Signal != nil {
			t.Errorf("%s: %+v", code, r)
		}
	}
}

func TestErrorRecord(t *testing.T) {
	if NewErrorRecord(nil) != nil {
		t.Error("a record of no error")
	}
	r := NewErrorRecord(errors.New("plain"))
	if r.Code != errdef.Internal || r.Message != "plain" || r.Errno != "" {
		t.Errorf("%+v", r)
	}
	r = NewErrorRecord(fmt.Errorf("x: %w", &errdef.Error{Code: errdef.Setup, Op: "mount", Path: "/proc", Hint: "h",
		Err: &os.PathError{Op: "open", Path: "/proc", Err: syscall.EPERM}}))
	if r.Code != errdef.Setup || r.Op != "mount" || r.Path != "/proc" || r.Hint != "h" || r.Errno != "EPERM" {
		t.Errorf("%+v", r)
	}
	if r := NewErrorRecord(&errdef.Error{Errno: syscall.ENOSPC}); r.Errno != "ENOSPC" {
		t.Errorf("%+v", r)
	}
}

func TestOutcome(t *testing.T) {
	exited := func(code int) exitInfo { return exitInfo{status: syscall.WaitStatus(code << 8), ok: true} }
	killedBy := func(sig int) exitInfo { return exitInfo{status: syscall.WaitStatus(sig), ok: true} }
	for name, c := range map[string]struct {
		oom, denied uint64
		exit        exitInfo
		why         Reason
		reason      Reason
		code, sig   int // -1 = nil
	}{
		"exit":                 {0, 0, exited(0), "", ReasonExited, 0, -1},
		"exit 255":             {0, 0, exited(255), "", ReasonExited, 255, -1},
		"segv":                 {0, 0, killedBy(11), "", ReasonSignaled, -1, 11},
		"segv with core":       {0, 0, killedBy(11 | 0x80), "", ReasonSignaled, -1, 11},
		"pid 1 died":           {0, 0, exitInfo{}, "", ReasonKilled, -1, 9},
		"timeout":              {0, 0, exitInfo{}, ReasonTimeout, ReasonTimeout, -1, 9},
		"timeout, just exited": {0, 0, exited(3), ReasonTimeout, ReasonTimeout, 3, -1},
		"oom, exit 0":          {1, 0, exited(0), "", ReasonOOM, 0, -1},
		"oom of all":           {1, 0, exitInfo{}, "", ReasonOOM, -1, 9},
		"pids":                 {0, 5, exited(1), "", ReasonPidsLimit, 1, -1},
		"oom goes first":       {1, 5, exited(1), "", ReasonOOM, 1, -1},
		"timeout goes first":   {1, 5, exitInfo{}, ReasonTimeout, ReasonTimeout, -1, 9},
	} {
		r := &Result{OOMKills: c.oom, PidsDenied: c.denied}
		r.setOutcome(c.exit, c.why)
		same := func(p *int, v int) bool { return p == nil && v == -1 || p != nil && *p == v }
		if r.Reason != c.reason || !same(r.ExitCode, c.code) || !same(r.Signal, c.sig) {
			t.Errorf("%s: %v", name, ended{Result: r})
		}
	}
}

// The record's keys are an interface.
func TestResultJSON(t *testing.T) {
	r := &Result{ID: "x", Started: true, Reason: ReasonExited, ExitCode: ptr(0), Value: json.RawMessage(`{"a":1}`),
		Files: []FetchedFile{{Path: "/workspace/a", Data: []byte("secret")}}, Error: &ErrorRecord{Code: "setup", Message: "m"}}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"x","started":true,"reason":"exited","exit_code":0,"signal":null,` +
		`"usage":{"wall_ns":0,"cpu_ns":0,"memory_peak":null,"pids_peak":null},` +
		`"output":{"stdout_bytes":0,"stderr_bytes":0,"truncated":false},"network_denials":0,"oom_kills":0,"pids_denied":0,` +
		`"tool_calls":{"total":0,"refused":0},"result":{"a":1},"files":[{"path":"/workspace/a","size":0}],` +
		`"error":{"code":"setup","message":"m"}}`
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
}

func TestUndoStack(t *testing.T) {
	var got strings.Builder
	var u undoStack
	for _, c := range "abc" {
		u.add(func() { got.WriteRune(c) })
	}
	u.run()
	u.run() // once only
	if got.String() != "cba" {
		t.Errorf("%q", got.String())
	}
	u.add(func() { t.Error("released, yet run") })
	u.release()
	u.run()
}
