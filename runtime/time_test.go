package runtime

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gone reports whether no process of a sandbox is left.
func gone(s *Sandbox) bool { return len(sandboxPIDs(s)) == 0 }

// Promise 3 and case 1: at the deadline the whole tree dies, 200 ms is what is
// promised, and the output so far is there.
func TestTimeoutKillsTheTree(t *testing.T) {
	best := time.Hour
	for range 3 {
		r := sh(t, `mkfifo p; (while :; do echo c; sleep 0.1; done) > p & setsid sleep 1000 & (trap '' TERM INT HUP; sleep 1000) & cat p`, timeout(time.Second))
		if r.Reason != ReasonTimeout || !strings.HasPrefix(r.Out, "c\n") || r.ExitStatus() != StatusTimeout || !r.Started {
			t.Errorf("%v", r)
		}
		best = min(best, r.Usage.Wall-time.Second)
	}
	if best < 0 || best > 200*time.Millisecond {
		t.Errorf("the best of three ended %v after the deadline", best)
	}
}

// Case 12.
func TestTimeoutKeepsPartialOutput(t *testing.T) {
	r := py(t, `
import sys, time
print("out", end="", flush=True); print("err", end="", file=sys.stderr, flush=True); time.sleep(1000)`, timeout(time.Second))
	if r.Reason != ReasonTimeout || r.Out != "out" || r.Err != "err" {
		t.Errorf("%v", r)
	}
}

// Case 2: the end of the main program is the end of all; nobody waits for a
// grandchild that holds the pipe.
func TestBackgroundProcessesEnd(t *testing.T) {
	for _, script := range []string{
		"sleep 1000 & echo hi", "setsid sleep 1000 & echo hi", "(trap '' HUP TERM; exec sleep 1000) & disown; echo hi",
		"/usr/bin/python3 -c 'import os,time; os.fork() or os.setsid() or os.fork() or time.sleep(1000)'; echo hi",
	} {
		s, err := testHost(t).Start(context.Background(), NewPolicy("bash", "-c", script), RunOptions{Stdout: newLineWriter()})
		if err != nil {
			t.Fatal(err)
		}
		r := s.Wait()
		if r.Reason != ReasonExited || r.Usage.Wall > slow || r.Output.StdoutBytes != 3 {
			t.Errorf("%s: %v", script, ended{Result: r})
		}
		if !gone(s) {
			t.Errorf("%s: processes are left", script)
		}
	}
}

func TestContextKills(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	out := newLineWriter()
	s, err := testHost(t).Start(ctx, NewPolicy("bash", "-c", "echo ready; sleep 1000"), RunOptions{Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	out.await("ready")
	cancel()
	if r := s.Wait(); r.Reason != ReasonKilled || *r.Signal != 9 || out.String() != "ready\n" {
		t.Errorf("%v", ended{Result: r})
	}
	if _, err := testHost(t).Start(ctx, NewPolicy("true"), RunOptions{}); err == nil {
		t.Log("a run with a cancelled context starts and is killed at once")
	}
}

func TestKillAndSignal(t *testing.T) {
	x := hold(t, testHost(t), NewPolicy("bash", "-c", "trap 'echo got; exit 7' TERM; echo ready; while :; do read -t 0.05 x; done"))
	if err := x.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := x.Wait(); r.Reason != ReasonExited || *r.ExitCode != 7 || !strings.Contains(x.out.String(), "got") {
		t.Errorf("%v", ended{Result: r})
	}
	if err := x.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a signal to an ended program: %v", err)
	}
	x = hold(t, testHost(t), NewPolicy("bash", "-c", "trap '' TERM; echo ready; sleep 1000"))
	x.Kill()
	x.Kill()
	if r := x.Wait(); r.Reason != ReasonKilled {
		t.Errorf("%v", ended{Result: r})
	}
}

// A stopped tree is killed like any other.
func TestStoppedProgramsDie(t *testing.T) {
	r := sh(t, "sleep 1000 & kill -STOP $!; kill -STOP $$", timeout(time.Second))
	if r.Reason != ReasonTimeout || r.Usage.Wall > time.Second+slow {
		t.Errorf("%v", r)
	}
}

// Case 16: PID 1 reaps what others left; the children of the program itself
// are the program's.
func TestZombiesAreReaped(t *testing.T) {
	r := py(t, `
import os, time
for i in range(500):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
def zombies():
    n = 0
    for d in os.listdir("/proc"):
        if d.isdigit():
            try: n += open(f"/proc/{d}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
            except OSError: pass
    return n
end = time.monotonic() + 10
while zombies() and time.monotonic() < end: time.sleep(0.01)
print(zombies())`, pids(32)).ok(t)
	if r.Out != "0\n" || r.PidsDenied != 0 {
		t.Errorf("%v", r)
	}
}

// A program may run longer than any of the supervisor's own waits take.
func TestLongRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 12 s")
	}
	if r := sh(t, "sleep 12; echo end", timeout(time.Minute)).ok(t); r.Out != "end\n" {
		t.Errorf("%v", r)
	}
}
