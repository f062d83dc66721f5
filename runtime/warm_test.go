package runtime

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
)

// warmHost is a host that keeps n sandboxes ready.
func warmHost(t *testing.T, n int) *Host {
	t.Helper()
	requireRoot(t)
	h, err := Open(Options{StateDir: privateDir(t), Warm: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func (w *warmPool) waiting() int {
	w.busy.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ready)
}

func runText(t *testing.T, h *Host, p Policy) string {
	t.Helper()
	var out bytes.Buffer
	r, err := h.Run(context.Background(), p, RunOptions{Stdout: &out})
	if err != nil || r.ExitStatus() != 0 {
		t.Fatalf("%v %v", err, ended{Result: r, Out: out.String()})
	}
	return out.String()
}

func TestWarmIsBounded(t *testing.T) {
	for _, n := range []int{-1, MaxWarm + 1} {
		if _, err := Open(Options{Warm: n}); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := Open(Options{Warm: 1, OneShot: true}); !errdef.Is(err, errdef.Invalid) {
		t.Errorf("with OneShot: %v", err)
	}
}

// A prepared sandbox is used once, by a run of its own kind, and nothing of one
// run is there in the next.
func TestWarmSandboxesAreUsedOnce(t *testing.T) {
	h := warmHost(t, 1)
	const leave = "id -u; ls -A /workspace /tmp /dev/shm; touch /workspace/w /tmp/t /dev/shm/s; hostname"
	want := "1000\n/dev/shm:\n\n/tmp:\n\n/workspace:\nsandbox\n"
	ids := map[string]bool{}
	for i := range 6 {
		if got := runText(t, h, NewPolicy("sh", "-c", leave)); got != want {
			t.Fatalf("run %d: %q", i, got)
		}
		if n := h.warm.waiting(); n != 1 {
			t.Fatalf("run %d: %d ready", i, n)
		}
		h.warm.mu.Lock()
		id := h.warm.ready[0].id
		h.warm.mu.Unlock()
		if ids[id] {
			t.Fatalf("%s is ready again", id)
		}
		ids[id] = true
	}
	// Another kind: other limits. The one that waits does not fit, and is replaced.
	p := NewPolicy("sh", "-c", "df -k /workspace | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2; hostname")
	p.Limits.WorkspaceBytes, p.Hostname = 8<<20, "other"
	for range 2 {
		if got := runText(t, h, p); got != "8192\nother\n" {
			t.Errorf("another kind: %q", got)
		}
	}
	if n := h.warm.waiting(); n != 1 {
		t.Errorf("%d ready", n)
	}
	if got := runText(t, h, NewPolicy("sh", "-c", leave)); got != want {
		t.Errorf("the first kind again: %q", got)
	}
}

// A waiting sandbox that has died, alone or with its launcher, costs a run
// nothing but the time to build another.
func TestWarmSandboxesMayDie(t *testing.T) {
	h := warmHost(t, 2)
	for round := range 3 {
		runText(t, h, NewPolicy("true"))
		h.warm.waiting()
		for _, pid := range launcherOf(t) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if got := runText(t, h, NewPolicy("echo", "alive")); got != "alive\n" {
			t.Errorf("round %d: %q", round, got)
		}
	}
}

// Many at once: a pool smaller than the demand, then nothing left.
func TestWarmUnderLoad(t *testing.T) {
	requireRoot(t)
	dir := privateDir(t)
	h, err := Open(Options{StateDir: dir, Warm: 3})
	if err != nil {
		t.Fatal(err)
	}
	supervisor := h.self.id
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			var out bytes.Buffer
			r, err := h.Run(context.Background(), NewPolicy("echo", fmt.Sprint(i)), RunOptions{Stdout: &out})
			if err != nil || r.ExitStatus() != 0 || out.String() != fmt.Sprintln(i) {
				t.Errorf("%d: %v %v", i, err, ended{Result: r, Out: out.String()})
			}
		})
	}
	wg.Wait()
	if n := h.warm.waiting(); n > 3 {
		t.Errorf("%d ready", n)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if left, err := cgroups.Leftovers(detect(t)); err != nil || contains(left, supervisor) {
		t.Errorf("cgroups left: %v %v", left, err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("records left: %v", got)
	}
}
