package runtime

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

// Case 31: codes that sbxrun uses itself are the program's own here.
func TestExitCodes(t *testing.T) {
	for _, code := range []int{0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255} {
		r := sh(t, fmt.Sprintf("exit %d", code))
		if !r.Started || r.Reason != ReasonExited || r.ExitCode == nil || *r.ExitCode != code || r.Signal != nil || r.ExitStatus() != code {
			t.Errorf("exit %d: %v", code, r)
		}
	}
}

func TestSignals(t *testing.T) {
	const source = `#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
int deep(volatile int n) { volatile char b[4096]; b[n % 4096] = 1; return deep(n + 1) + b[0]; }
int main(int c, char **v) {
	volatile int zero = 0, one = 1, *null = 0;
	if (!strcmp(v[1], "segv")) return *null;
	if (!strcmp(v[1], "fpe")) return one / zero;
	if (!strcmp(v[1], "abort")) abort();
	if (!strcmp(v[1], "ill")) __builtin_trap();
	if (!strcmp(v[1], "stack")) return deep(1);
	kill(getpid(), atoi(v[1]));
	return 99;
}`
	for arg, sig := range map[string]int{"segv": 11, "fpe": 8, "abort": 6, "ill": 4, "stack": 11, "31": 31, "9": 9, "15": 15, "2": 2, "1": 1, "13": 13, "64": 64} {
		r := runC(t, source, []string{arg})
		if !r.Started || r.Reason != ReasonSignaled || r.ExitCode != nil || r.Signal == nil || *r.Signal != sig || r.ExitStatus() != 128+sig {
			t.Errorf("%s: %v", arg, r)
		}
		if strings.Contains(r.Out+r.Err, "core") {
			t.Errorf("%s: %v", arg, r)
		}
	}
}

// The program starts with the default signal state whatever the host ignores.
func TestSignalStateIsDefault(t *testing.T) {
	r := sh(t, "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; grep -c . /proc/self/status >/dev/null")
	for _, f := range []string{"SigBlk", "SigIgn"} {
		if got := statusField(r.Out, f); got != "0000000000000000" {
			t.Errorf("%s %s", f, got)
		}
	}
}

func TestPrograms126And127(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   errdef.Code
		status int
	}{
		{[]string{"no-such-program"}, errdef.CommandNotFound, 127},
		{[]string{"/no/such/program"}, errdef.CommandNotFound, 127},
		{[]string{"./missing"}, errdef.CommandNotFound, 127},
		{[]string{"/etc/hosts"}, errdef.NotExecutable, 126},
		{[]string{"/usr"}, errdef.NotExecutable, 126},
		{[]string{"/workspace/text"}, errdef.NotExecutable, 126},
		{[]string{"/workspace/garbage"}, errdef.NotExecutable, 126},
	} {
		r := runArgs(t, c.args, withFile("text", 0o644, []byte("#!/bin/sh\n")), withFile("garbage", 0o755, []byte("\x7fELFgarbage")))
		if r.Started || r.Error == nil || r.Error.Code != c.code || r.ExitStatus() != c.status {
			t.Errorf("%v: %v", c.args, r)
		}
	}
	if r := runArgs(t, []string{"/workspace/ok"}, withFile("ok", 0o755, []byte("#!/bin/sh\necho ok\n"))).ok(t); r.Out != "ok\n" {
		t.Errorf("control: %v", r)
	}
}

// A program in the working directory is not found by its bare name.
func TestPathIsLookedUpInside(t *testing.T) {
	if r := runArgs(t, []string{"local"}, withFile("local", 0o755, []byte("#!/bin/sh\n"))); r.Started || r.ExitStatus() != 127 {
		t.Errorf("%v", r)
	}
	if r := runArgs(t, []string{"local"}, withFile("b/local", 0o755, []byte("#!/bin/sh\necho mine\n")),
		func(p *Policy) { p.Env["PATH"] = "/nonexistent:/workspace/b:/usr/bin:/bin" }).ok(t); r.Out != "mine\n" {
		t.Errorf("%v", r)
	}
}

// Case 34, and the largest that is allowed.
func TestLargeArguments(t *testing.T) {
	big := func(p *Policy) {
		for i := range 4 {
			p.Env[fmt.Sprint("BIG", i)] = strings.Repeat("e", 100<<10)
		}
		for range 4 {
			p.Args = append(p.Args, strings.Repeat("a", 120<<10))
		}
		for range 5000 {
			p.Args = append(p.Args, "x")
		}
	}
	r := runArgs(t, []string{"bash", "-c", `echo $# ${#BIG0} ${#1}`, "sh"}, big).ok(t)
	if r.Out != fmt.Sprintf("5004 %d %d\n", 100<<10, 120<<10) {
		t.Errorf("%v", r)
	}
	r = runArgs(t, []string{"true"}, func(p *Policy) {
		for i := range 21 {
			p.Env[fmt.Sprint("BIG", i)] = strings.Repeat("e", 100<<10)
		}
	})
	if r.Started || r.Error.Code != errdef.Invalid || r.Reason != ReasonRefused || !strings.Contains(r.Error.Message, "1048576") {
		t.Errorf("%v", r)
	}
}
