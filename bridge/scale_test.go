package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// openFDs lists what this process has open.
func openFDs(t testing.TB) []string {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range dir {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			out = append(out, target)
		}
	}
	return out
}

// Case 19: 200 sandboxes at once on one inotify instance, as root and as an
// unprivileged user.
func TestTwoHundredSandboxes(t *testing.T) {
	if os.Getenv(nsEnv) != "unprivileged" {
		twoHundred(t)
		if os.Getuid() == 0 {
			asUser(t)
		}
		return
	}
	twoHundred(t)
}

// asUser runs the calling test again as an unprivileged user.
func asUser(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The test binary lies in a private directory of the builder.
	exe := filepath.Join(dir, "bridge.test")
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, attackerUID, attackerUID); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), nsEnv+"=unprivileged", "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: attackerUID, Gid: attackerUID}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("unprivileged: %v\n%s", err, out)
	}
}

func twoHundred(t *testing.T) {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if w.Polling() {
		t.Fatal("the watcher polls")
	}
	var rigs []*rig
	base := t.TempDir()
	for i := range 200 {
		rigs = append(rigs, newRigOn(t, w, filepath.Join(base, seq(i)), Config{MaxCalls: 10, SandboxID: seq(i)}, echoTool()))
	}
	if n := slices.Collect(func(yield func(string) bool) {
		for _, fd := range openFDs(t) {
			if fd == "anon_inode:inotify" && !yield(fd) {
				return
			}
		}
	}); len(n) != 1 {
		t.Errorf("%d inotify instances", len(n))
	}
	for k := range 3 {
		for i, r := range rigs {
			r.put(seq(k), fmt.Sprintf(`{"tool":"echo","args":{"v":[%d,%d]}}`, i, k))
		}
		for i, r := range rigs {
			if got := r.waitReply(seq(k), 10*time.Second); string(got.Result) != fmt.Sprintf("[%d,%d]", i, k) {
				t.Fatalf("sandbox %d: %+v", i, got)
			}
		}
	}
	for _, r := range rigs {
		r.srv.Close()
	}
}

// After Close no goroutine and no descriptor is left, whatever went on.
func TestNothingLeaks(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	slow := handlerTool("slow", func(ctx context.Context, _ Call) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
	cmd, err := Command([]string{script(t, t.TempDir(), "s", "sleep 50")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	round := func(dir string) {
		r := newRigOn(t, w, dir, Config{MaxCalls: 100, Concurrency: 3, Limits: Limits{Flood: 5}}, echoTool(), slow, Tool{Name: "cmd", Handler: cmd})
		r.works("a")
		for i := range 20 { // grow the doorbells, fill the queue
			r.put(seq(i), fmt.Sprintf(`{"tool":%q,"args":{},"bell":%d}`, []string{"slow", "cmd"}[i%2], min(i, 8)))
		}
		for i := range 6 {
			r.put("bad"+seq(i), `[]`)
		}
		<-r.flooded
		r.srv.Close()
		_, _ = r.cfg.Req.Close(), r.cfg.Resp.Close()
	}
	base := t.TempDir()
	round(filepath.Join(base, "warm"))
	fds, goroutines := len(openFDs(t)), runtime.NumGoroutine()
	for i := range 5 {
		round(filepath.Join(base, seq(i)))
	}
	eventually(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := len(openFDs(t)); n > fds {
		t.Errorf("%d descriptors, were %d: %v", n, fds, openFDs(t))
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error("second Close:", err)
	}
	if slices.Contains(openFDs(t), "anon_inode:inotify") {
		t.Error("the inotify instance is left")
	}
}

func TestOrderAndConcurrency(t *testing.T) {
	var mu sync.Mutex
	var order []string
	var now, most, nowOne, mostOne atomic.Int32
	up := func(n, m *atomic.Int32) {
		for v := n.Add(1); ; {
			if o := m.Load(); v <= o || m.CompareAndSwap(o, v) {
				return
			}
		}
	}
	gate := make(chan struct{})
	work := handlerTool("work", func(_ context.Context, c Call) (json.RawMessage, error) {
		up(&now, &most)
		defer now.Add(-1)
		mu.Lock()
		order = append(order, c.ID)
		mu.Unlock()
		<-gate
		return json.RawMessage("1"), nil
	})
	one := work
	one.Name, one.Concurrency = "one", 1
	one.Handler = HandlerFunc(func(ctx context.Context, c Call) (json.RawMessage, error) {
		up(&nowOne, &mostOne)
		defer nowOne.Add(-1)
		return work.Handler.Call(ctx, c)
	})
	r := newRig(t, Config{MaxCalls: 100, Concurrency: 3, Limits: Limits{Queue: 17}}, work, one)
	for i := range 20 {
		r.put(fmt.Sprintf("q%02d", i), fmt.Sprintf(`{"tool":%q,"args":{}}`, []string{"one", "one", "work"}[i%3]))
		eventually(t, "it is admitted", func() bool { // a sweep may see later files first
			r.srv.mu.Lock()
			defer r.srv.mu.Unlock()
			return r.srv.running+len(r.srv.waiting) == i+1
		})
	}
	r.put("over", `{"tool":"work","args":{}}`)
	if got := r.waitReply("over", time.Second); got.Code != Overloaded {
		t.Errorf("got %+v", got)
	}
	close(gate)
	for i := range 20 {
		if got := r.waitReply(fmt.Sprintf("q%02d", i), 5*time.Second); got.Code != "" {
			t.Errorf("got %+v", got)
		}
	}
	if most.Load() != 3 || mostOne.Load() != 1 {
		t.Errorf("%d at once, %d of one", most.Load(), mostOne.Load())
	}
	r.srv.Close()
	mu.Lock()
	defer mu.Unlock()
	var ones, works []string
	for _, id := range order {
		if n := int(id[1]-'0')*10 + int(id[2]-'0'); n%3 == 2 {
			works = append(works, id)
		} else {
			ones = append(ones, id)
		}
	}
	if !slices.IsSorted(ones) {
		t.Errorf("not first in, first out: %v", ones)
	}
	if !slices.Contains(order[:3], "q00") || !slices.Contains(order[:3], "q02") || !slices.Contains(order[:3], "q05") || len(works) != 6 {
		t.Errorf("a busy tool holds up the others: %v", order)
	}
}

func TestDoorbellsGrowOnDemand(t *testing.T) {
	r := newRig(t, Config{MaxCalls: 1000}, echoTool())
	count := func() int {
		n := 0
		for i := range maxSlots + 5 {
			if _, err := os.Stat(filepath.Join(r.res, fmt.Sprintf("bell_%d", i))); err == nil {
				n++
			}
		}
		return n
	}
	if count() != firstSlots {
		t.Errorf("%d at the start", count())
	}
	next := 0
	for _, step := range []struct{ bell, slots int }{{0, 2}, {1, 4}, {2, 4}, {4, 8}, {20, 16}, {15, 32}, {31, 64}, {63, 64}, {64, 64}, {1 << 30, 64}} {
		next++
		if got := r.ask(seq(next), fmt.Sprintf(`{"tool":"echo","args":{"v":1},"bell":%d}`, step.bell)); got.Code != "" {
			t.Errorf("bell %d: %+v", step.bell, got)
		}
		if count() != step.slots {
			t.Errorf("after %d: %d slots, want %d", step.bell, count(), step.slots)
		}
	}
	// A full FIFO is nobody's problem: nobody reads bell_0.
	r.srv.bellMu.RLock()
	fd := r.srv.bells[0]
	r.srv.bellMu.RUnlock()
	junk := make([]byte, 1<<16)
	for {
		if _, err := syscall.Write(fd, junk); err != nil {
			break
		}
	}
	if got := r.ask("full", `{"tool":"echo","args":{"v":1},"bell":0}`); got.Code != "" {
		t.Errorf("got %+v", got)
	}
	if st, err := os.Stat(filepath.Join(r.res, "bell_0")); err != nil || st.Mode().Perm() != bellMode {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
}

// A tool may itself start a sandbox: serve another bridge on the same watcher.
func TestToolThatServes(t *testing.T) {
	base := t.TempDir()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	nest := handlerTool("nest", func(_ context.Context, c Call) (json.RawMessage, error) {
		in := newRigOn(t, w, filepath.Join(base, c.ID), Config{MaxCalls: 1}, echoTool())
		defer in.srv.Close()
		return in.ask("x", `{"tool":"echo","args":{"v":"inner"}}`).Result, nil
	})
	r := newRigOn(t, w, filepath.Join(base, "outer"), Config{MaxCalls: 3}, nest)
	defer r.srv.Close()
	if got := r.ask("o", `{"tool":"nest","args":{}}`); string(got.Result) != `"inner"` {
		t.Errorf("got %+v", got)
	}
	if _, err := w.Serve(t.Context(), r.cfg); err == nil {
		t.Error("one directory is served twice")
	}
}

func TestResultFile(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, `[1`: "!", `{"a":1,"a":2}`: "!", strings.Repeat(" ", 9<<20): "!", strings.Repeat("[", 65) + strings.Repeat("]", 65): "!",
	} {
		r := newRig(t, Config{}, echoTool())
		if err := os.WriteFile(filepath.Join(r.req, resultName), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
		r.srv.Close()
		got, err := r.srv.Result()
		if want == "!" && (err == nil || got != nil) || want != "!" && (err != nil || string(got) != want) {
			t.Errorf("%.20s: %s %v", body, got, err)
		}
	}
	r := newRig(t, Config{}, echoTool())
	if err := syscall.Mkfifo(filepath.Join(r.req, resultName), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := r.srv.Result(); err == nil || got != nil {
		t.Errorf("fifo: %s %v", got, err)
	}
}

func TestConfigRefusals(t *testing.T) {
	r := newRig(t, Config{}, echoTool())
	for name, change := range map[string]func(*Config){
		"no req":      func(c *Config) { c.Req = nil },
		"max calls":   func(c *Config) { c.MaxCalls = -1 },
		"concurrency": func(c *Config) { c.Concurrency = -1 },
		"timeout":     func(c *Config) { c.ToolTimeout = -1 },
		"limits":      func(c *Config) { c.Limits.Depth = -1 },
	} {
		cfg := r.cfg
		change(&cfg)
		if s, err := r.w.Serve(t.Context(), cfg); err == nil || s != nil {
			t.Errorf("%s passes", name)
		}
	}
}
