//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests here load the filters into real processes. Each runs in a child,
// which is this test binary again with childEnv set to what it is to do, so
// that the tests themselves go on unfiltered. See kernel_child_test.go.
const childEnv = "SBXRUN_SECCOMP_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		child(mode)
		return
	}
	os.Exit(m.Run())
}

func childCommand(mode string) (*exec.Cmd, *strings.Builder) {
	var stderr strings.Builder
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+mode, "GOGC=off")
	cmd.Stderr = &stderr
	return cmd, &stderr
}

// report runs a child and returns the findings that it prints.
func report(t *testing.T, mode string) []finding {
	t.Helper()
	cmd, stderr := childCommand(mode)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child %s: %v\n%s%s", mode, err, out, stderr)
	}
	var found []finding
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("child %s: %v\n%s", mode, err, out)
	}
	if len(found) == 0 {
		t.Fatalf("child %s: no findings", mode)
	}
	return found
}

// bothFilters loads them in the only order that there is: the allow filter
// refuses to load another.
const bothFilters = "deny,allow"

// TestKernelRefuses makes every call that must be refused under the filters,
// and each that must work.
func TestKernelRefuses(t *testing.T) {
	for _, f := range report(t, bothFilters) {
		if f.Got != f.Want {
			t.Errorf("%s: %s, want %s", f.What, f.Got, f.Want)
		}
	}
}

// TestKernelRefusesMoreFilters: a program under the allow filter loads none.
func TestKernelRefusesMoreFilters(t *testing.T) {
	cmd, stderr := childCommand("allow,deny")
	if out, err := cmd.Output(); err == nil || !strings.Contains(stderr.String(), "function not implemented") {
		t.Errorf("%v\n%s%s", err, out, stderr)
	}
}

// TestKernelControl makes the calls with refused arguments without a filter:
// none may answer EPERM, or TestKernelRefuses would prove nothing.
func TestKernelControl(t *testing.T) {
	for _, f := range report(t, "bare") {
		if f.Got == errnoName(unix.EPERM) {
			t.Errorf("%s: %s without a filter", f.What, f.Got)
		}
	}
}

// TestKernelKillsForeignABI runs a program that makes an i386 call.
func TestKernelKillsForeignABI(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("int 0x80 is an x86 instruction")
	}
	const exitCode = 7
	result := func(mode string) unix.WaitStatus {
		cmd, stderr := childCommand("exec-i386," + mode)
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: %v\n%s", mode, err, stderr)
		}
		return unix.WaitStatus(exit.Sys().(syscall.WaitStatus))
	}
	if w := result("bare"); w.Signaled() {
		t.Skip("this kernel has no i386 ABI")
	} else if w.ExitStatus() != exitCode {
		t.Fatalf("control: exit %d, want %d", w.ExitStatus(), exitCode)
	}
	if w := result(bothFilters); !w.Signaled() || w.Signal() != unix.SIGSYS {
		t.Errorf("under the filters: status %#x, want death by SIGSYS", uint32(w))
	}
}

// TestKernelInitFilter: under the init filter a listed call works, then
// another kills.
func TestKernelInitFilter(t *testing.T) {
	cmd, stderr := childCommand("init")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v\n%s%s", err, out, stderr)
	}
	w := exit.Sys().(syscall.WaitStatus)
	if string(out) != "alive" || !w.Signaled() || w.Signal() != syscall.SIGSYS {
		t.Errorf("printed %q, status %#x; want \"alive\" and death by SIGSYS\n%s", out, uint32(w), stderr)
	}
}
