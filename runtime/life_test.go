package runtime

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/errdef"
)

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	for i := len(b) - 1; i > 0; i-- {
		if b[i] == ')' {
			return b[i+2] != 'Z' && b[i+2] != 'X'
		}
	}
	return false
}

// Cases 26 and 30: the embedding host is killed. Its sandboxes are gone within
// a second, and Reap leaves everything as it was.
func TestHostIsKilled(t *testing.T) {
	requireRoot(t)
	dir := privateDir(t)
	layout := detect(t)
	for range 3 {
		cmd := helper("hold:" + dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadBytes('\n')
		var info heldInfo
		if err == nil {
			err = json.Unmarshal(line, &info)
		}
		if err != nil {
			cmd.Process.Kill()
			t.Fatalf("%v: %s", err, line)
		}
		if len(info.PIDs) < 9 { // two of init, shell, two sleepers; the launcher
			t.Errorf("control: only %v run", info.PIDs)
		}
		for _, pid := range info.PIDs {
			if !alive(pid) {
				t.Errorf("control: %d does not run", pid)
			}
		}
		if done, err := Reap(Options{StateDir: dir}); err != nil || len(done) != 0 {
			t.Errorf("a live host is reaped: %v %v", done, err)
		}
		cmd.Process.Kill()
		start := time.Now()
		eventually(t, "the end of all processes", slow, func() bool {
			for _, pid := range info.PIDs {
				if alive(pid) {
					return false
				}
			}
			return true
		})
		if d := time.Since(start); d > time.Second {
			t.Errorf("the sandboxes ended after %v", d)
		}
		cmd.Wait()
		if left, _ := cgroups.Leftovers(layout); !contains(left, info.Supervisor) || len(names(t, dir)) != 1 {
			t.Errorf("control: nothing is there to reap: %v", names(t, dir))
		}
		done, err := Reap(Options{StateDir: dir})
		if err != nil || len(done) != 1 || done[0].Supervisor != info.Supervisor {
			t.Errorf("%v %v", done, err)
		}
		if err := nothingLeft(dir, info.Supervisor); err != nil {
			t.Error(err)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// A host that opens cleans up what a dead one left.
func TestOpenReaps(t *testing.T) {
	requireRoot(t)
	dir := privateDir(t)
	dead := mustClaim(t, dir)
	dead.crash()
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 1 || contains(got, dead.id+".json") {
		t.Errorf("%v", got)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if _, err := h.Start(context.Background(), NewPolicy("true"), RunOptions{}); !errdef.Is(err, errdef.State) {
		t.Errorf("Start on a closed host: %v", err)
	}
}

// The launcher is killed: its sandboxes die, the results say so, the next run
// gets a new launcher.
func TestLauncherIsKilled(t *testing.T) {
	h := ownHost(t)
	for range 3 {
		a := hold(t, h, NewPolicy("bash", "-c", "echo ready; sleep 1000 & read x"))
		b := hold(t, h, NewPolicy("bash", "-c", "echo ready; sleep 1000 & read x"))
		pids := append(sandboxPIDs(a.Sandbox), sandboxPIDs(b.Sandbox)...)
		var mine []int
		for _, pid := range launcherOf(t) {
			for _, child := range children(pid) {
				if child == pids[0] {
					mine = append(mine, pid)
				}
			}
		}
		if len(mine) != 1 {
			t.Fatalf("launchers %v", mine)
		}
		syscall.Kill(mine[0], syscall.SIGKILL)
		for _, x := range []*held{a, b} {
			if r := x.Wait(); r.Reason != ReasonKilled || r.Signal == nil || *r.Signal != 9 || r.ExitCode != nil {
				t.Errorf("%v", ended{Result: r})
			}
		}
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("%d lives", pid)
			}
		}
		if r := runOn(t, h, NewPolicy("echo", "next"), RunOptions{}).ok(t); r.Out != "next\n" {
			t.Errorf("%v", r)
		}
	}
}

// PID 1 of a sandbox is killed from outside, as the host's OOM killer might.
func TestInitIsKilled(t *testing.T) {
	x := hold(t, testHost(t), NewPolicy("bash", "-c", "sleep 1000 & echo ready; read x"))
	pids := sandboxPIDs(x.Sandbox)
	for _, pid := range pids {
		if comm(pid) == "sbxrun-init" {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if r := x.Wait(); r.Reason != ReasonKilled || *r.Signal != 9 {
		t.Errorf("%v", ended{Result: r})
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("%d lives", pid)
		}
	}
}

// Close ends what runs.
func TestCloseEndsSandboxes(t *testing.T) {
	requireRoot(t)
	dir := privateDir(t)
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var all []*Sandbox
	for range 5 {
		s, err := h.Start(context.Background(), NewPolicy("sleep", "1000"), RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if r := s.Wait(); r.Reason != ReasonKilled {
			t.Errorf("%v", ended{Result: r})
		}
	}
	if err := nothingLeft(dir, h.self.id); err != nil {
		t.Error(err)
	}
}

// Starts that race with Close either work or are refused; nothing is left.
func TestCloseWhileStarting(t *testing.T) {
	requireRoot(t)
	for range 3 {
		dir := privateDir(t)
		h, err := Open(Options{StateDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					r, err := h.Run(context.Background(), NewPolicy("true"), RunOptions{})
					if err != nil {
						if !errdef.Is(err, errdef.State) && !errdef.Is(err, errdef.Setup) {
							t.Errorf("%v", err)
						}
						return
					}
					if r.Reason != ReasonExited && r.Reason != ReasonKilled {
						t.Errorf("%v", ended{Result: r})
					}
				}
			})
		}
		runOn(t, h, NewPolicy("true"), RunOptions{})
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		wg.Wait()
		if err := nothingLeft(dir, h.self.id); err != nil {
			t.Error(err)
		}
	}
}

// A host with a large heap and busy threads: the cost of a sandbox is not the
// host's.
func TestLargeBusyHost(t *testing.T) {
	requireRoot(t)
	var info runsInfo
	answer(t, helper("heap:"+filepath.Join(t.TempDir(), "state")), &info)
	if info.OK != 20 {
		t.Errorf("%d of 20: %v", info.OK, info.Failures)
	}
}
