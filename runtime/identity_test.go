package runtime

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// held is a sandbox that prints "ready" and then waits until the test is done
// with it.
type held struct {
	*Sandbox
	stdin *os.File
	out   *lineWriter
	pid   int // of the program, as the host sees it
}

// hold starts a script that ends in `echo ready; read x` or the like.
func hold(t testing.TB, h *Host, p Policy) *held {
	t.Helper()
	r, w := blockingPipe(t)
	defer r.Close()
	out := newLineWriter()
	s, err := h.Start(context.Background(), p, RunOptions{Stdin: r, Stdout: out, Stderr: os.Stderr})
	if err != nil {
		w.Close()
		t.Fatal(err)
	}
	x := &held{s, w, out, 0}
	t.Cleanup(func() { w.Close(); s.Kill(); s.Wait() })
	out.await("ready")
	x.pid = programPID(t, s)
	return x
}

// blockingPipe is a pipe as a shell makes them; those of os.Pipe do not block.
func blockingPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
}

// let ends the program by the end of its input.
func (x *held) let() *Result {
	x.stdin.Close()
	return x.Wait()
}

// programPID finds the sandbox's main program among the host's processes: by
// the cgroup's list, where PID 1 comes first.
func programPID(t testing.TB, s *Sandbox) int {
	t.Helper()
	pids := sandboxPIDs(s)
	for _, pid := range pids {
		if comm(pid) != "sbxrun-init" {
			return pid
		}
	}
	t.Fatalf("no program among %v", pids)
	return 0
}

// sandboxPIDs lists the sandbox's processes as the host sees them.
func sandboxPIDs(s *Sandbox) []int {
	for _, pattern := range []string{"/sys/fs/cgroup/pids/sbxrun-*/*/cgroup.procs", "/sys/fs/cgroup/sbxrun-*/*/cgroup.procs"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			if !strings.Contains(f, s.ID()) {
				continue
			}
			data, _ := os.ReadFile(f)
			var pids []int
			for _, w := range strings.Fields(string(data)) {
				n, _ := strconv.Atoi(w)
				pids = append(pids, n)
			}
			return pids
		}
	}
	return nil
}

func comm(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(b))
}

// status returns a field of /proc/<pid>/status.
func status(t testing.TB, pid int, field string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return statusField(string(b), field)
}

func statusField(text, field string) string {
	for _, line := range strings.Split(text, "\n") {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return "?"
}

// lineWriter collects output and lets a test wait for a line.
type lineWriter struct {
	mu   sync.Mutex
	cond *sync.Cond
	buf  strings.Builder
}

func newLineWriter() *lineWriter {
	w := &lineWriter{}
	w.cond = sync.NewCond(&w.mu)
	return w
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	w.cond.Broadcast()
	return len(b), nil
}

func (w *lineWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await waits for a whole line; the run's own time limit bounds it.
func (w *lineWriter) await(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !strings.Contains("\n"+w.buf.String(), "\n"+line+"\n") {
		w.cond.Wait()
	}
}

var _ io.Writer = (*lineWriter)(nil)

// Threats, Isolation 1, seen from inside.
func TestIdentityInside(t *testing.T) {
	r := sh(t, `cat /proc/self/status; id -u; id -g; id -G; ulimit -c; ulimit -Hc; cat /proc/self/uid_map /proc/self/gid_map`).ok(t)
	for field, want := range map[string]string{
		"Uid": "1000 1000 1000 1000", "Gid": "1000 1000 1000 1000", "Groups": "", "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "2",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if got := statusField(r.Out, field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	if !strings.Contains(r.Out, "\n1000\n1000\n1000\n0\n0\n") {
		t.Errorf("id and core limit: %s", r.Out)
	}
}

// The same process seen from the host: no uid of anybody, no capability.
func TestIdentityOutside(t *testing.T) {
	x := hold(t, testHost(t), NewPolicy("bash", "-c", "echo ready; read x"))
	for _, pid := range sandboxPIDs(x.Sandbox) {
		uids := strings.Fields(status(t, pid, "Uid"))
		for _, field := range [][]string{uids, strings.Fields(status(t, pid, "Gid"))} {
			for _, id := range field {
				n, _ := strconv.ParseUint(id, 10, 64)
				if n < idBase || n >= 0x7fff0000 {
					t.Errorf("%s runs with host id %d", comm(pid), n)
				}
			}
		}
		if g := status(t, pid, "Groups"); g != "" {
			t.Errorf("%s has groups %s", comm(pid), g)
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if v := status(t, pid, set); v != "0000000000000000" {
				t.Errorf("%s: %s %s", comm(pid), set, v)
			}
		}
		if status(t, pid, "NoNewPrivs") != "1" || status(t, pid, "Seccomp") != "2" {
			t.Errorf("%s is not confined", comm(pid))
		}
	}
	if self := status(t, os.Getpid(), "CapEff"); self == "0000000000000000" {
		t.Error("control: root has no capabilities here, the test can tell nothing")
	}
	x.let()
}

// Program and PID 1 are different users; so are two sandboxes.
func TestEverySandboxHasItsOwnIDs(t *testing.T) {
	seen := map[string]string{}
	for range 4 {
		x := hold(t, testHost(t), NewPolicy("bash", "-c", "echo ready; read x"))
		for _, pid := range sandboxPIDs(x.Sandbox) {
			uid := strings.Fields(status(t, pid, "Uid"))[0]
			if other, dup := seen[uid]; dup {
				t.Errorf("uid %s: %s and %s", uid, other, comm(pid))
			}
			seen[uid] = x.ID() + " " + comm(pid)
		}
	}
}

func TestIdentityAsAsked(t *testing.T) {
	r := sh(t, "id -u; id -g; id -un; hostname; pwd; echo $HOME $LANG",
		func(p *Policy) { p.UID, p.GID, p.Hostname, p.Cwd = 4242, 4243, "other-1", "/tmp" }).ok(t)
	if r.Out != "4242\n4243\nsandbox\nother-1\n/tmp\n/workspace C.UTF-8\n" {
		t.Errorf("%q", r.Out)
	}
}

// No way back: setuid binaries, setuid calls and new namespaces give nothing.
func TestNoPrivilegeToGain(t *testing.T) {
	r := py(t, `
import os
def tell(name, f):
    try: f(); print(name, "ok")
    except OSError as e: print(name, e.errno)
tell("setuid0", lambda: os.setuid(0))
tell("setgid0", lambda: os.setgid(0))
tell("setgroups", lambda: os.setgroups([0]))
tell("same", lambda: os.setuid(os.getuid()))
tell("chown", lambda: (open("f","w").close(), os.chown("f", 0, 0)))
tell("chroot", lambda: os.chroot("/tmp"))
tell("nice", lambda: os.nice(-1))
tell("nicer", lambda: os.nice(1))
`).ok(t)
	for _, want := range []string{"setuid0 22", "setgid0 22", "setgroups 1", "same ok", "chown 22", "chroot 1", "nice 1", "nicer ok"} {
		if !strings.Contains(r.Out, want+"\n") {
			t.Errorf("no %q in %q", want, r.Out)
		}
	}
}

// Threats, "two sandboxes are strangers": neither sees nor signals the other.
func TestTwoSandboxesAreStrangers(t *testing.T) {
	x := hold(t, testHost(t), NewPolicy("bash", "-c", "echo secret > /tmp/s; exec -a victim bash -c 'echo ready; read x'"))
	r := py(t, fmt.Sprintf(`
import os
print(sorted(int(d) for d in os.listdir("/proc") if d.isdigit()))
for pid in (%d, -1):
    try: os.kill(pid, 9); print("killed", pid)
    except OSError as e: print("no", e.errno)
print(os.path.exists("/tmp/s"))
os.kill(os.getpid(), 0); print("control ok")
`, x.pid)).ok(t)
	if !strings.Contains(r.Out, "no 3\nno 3\nFalse\ncontrol ok\n") {
		t.Errorf("%q", r.Out)
	}
	if end := x.let(); end.Reason != ReasonExited {
		t.Errorf("the other sandbox: %v", ended{Result: end})
	}
}
