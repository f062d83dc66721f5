package cgroups

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimitsAreSet reads every limit back from the kernel.
func TestLimitsAreSet(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, Limits{Memory: 100 << 20, CPUQuota: 30 * time.Millisecond, CPUPeriod: 50 * time.Millisecond, Pids: 7})
	want := map[[2]string]string{{"pids", "pids.max"}: "7"}
	for _, tr := range p.trees {
		switch {
		case tr.has("memory") && tr.version == 2:
			want[[2]string{"memory", "memory.max"}] = "104857600"
			want[[2]string{"memory", "memory.oom.group"}] = "0"
		case tr.has("memory"):
			want[[2]string{"memory", "memory.limit_in_bytes"}] = "104857600"
			want[[2]string{"memory", "memory.memsw.limit_in_bytes"}] = "104857600"
			want[[2]string{"memory", socketLimitV1}] = "13107200"
		}
		switch {
		case tr.has("cpu") && tr.version == 2:
			want[[2]string{"cpu", "cpu.max"}] = "30000 50000"
		case tr.has("cpu"):
			want[[2]string{"cpu", "cpu.cfs_quota_us"}] = "30000"
			want[[2]string{"cpu", "cpu.cfs_period_us"}] = "50000"
		}
	}
	for k, v := range want {
		if got := readFile(t, g, k[0], k[1]); got != v {
			t.Errorf("%s: %q, want %q", k[1], got, v)
		}
	}
}

// TestMemory: case 9. The child that allocates too much is killed and counted,
// its shell goes on; below the limit nothing happens.
func TestMemory(t *testing.T) {
	p := openParent(t)
	lim := testLimits()

	// dd fills one buffer of that size, and unlike a Go program with -race
	// needs nothing else. It is a child of the shell, which prints afterwards.
	const script = "dd if=/dev/zero of=/dev/null bs=%M count=1 2>/dev/null && echo allocated; echo ok"
	below := newGroup(t, p, lim)
	out, err := inside(below, nil, "/bin/sh", "-c", strings.Replace(script, "%", "32", 1)).Output()
	if err != nil || string(out) != "allocated\nok\n" {
		t.Fatalf("below the limit: %v %q", err, out)
	}
	if s := stats(t, below); s.OOMKills != 0 || !s.HasMemoryPeak || s.MemoryPeak < 32<<20 || s.MemoryPeak > lim.Memory || s.CPU <= 0 {
		t.Errorf("below the limit: %+v", s)
	}

	above := newGroup(t, p, lim)
	out, err = inside(above, nil, "/bin/sh", "-c", strings.Replace(script, "%", "128", 1)).Output()
	if err != nil || string(out) != "ok\n" {
		t.Errorf("above the limit: %v %q", err, out)
	}
	s := stats(t, above)
	if s.OOMKills != 1 || s.MemoryPeak > lim.Memory {
		t.Errorf("above the limit: %+v", s)
	}
}

// TestSocketMemory: what waits in loopback connections is memory too.
func TestSocketMemory(t *testing.T) {
	p := openParent(t)
	lim := testLimits()
	lim.Memory = 128 << 20
	bound := lim.Memory + socketMemoryV1(lim.Memory)
	queued := func(cmd *exec.Cmd) (int64, error) {
		out, err := cmd.Output()
		n, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		return n, err
	}
	free := exec.Command("/proc/self/exe")
	free.Env = []string{helperEnv + "=queue:100"}
	if n, err := queued(free); err != nil || n < bound {
		t.Skipf("without a limit only %d bytes (%v): this host cannot tell", n, err)
	}
	g := newGroup(t, p, lim)
	n, err := queued(helper(g, "queue:100"))
	s := stats(t, g)
	t.Logf("%d MiB queued under a limit of %d MiB, %d OOM kills", n>>20, lim.Memory>>20, s.OOMKills)
	if _, v2 := g.CloneFD(); v2 && s.OOMKills > 0 {
		return // in the one limit for all: the program went over it
	}
	if err != nil || n > bound || n < 1<<20 {
		t.Errorf("%v: %d bytes queued, the limit is %d", err, n, bound)
	}
}

// TestPids: the fork that is one too many fails and is counted.
func TestPids(t *testing.T) {
	p := openParent(t)
	lim := testLimits()
	lim.Pids = 10

	below := newGroup(t, p, lim)
	script := "for i in $(seq %); do sleep 0.2 & done; wait"
	if out, err := inside(below, nil, "/bin/sh", "-c", strings.Replace(script, "%", "8", 1)).CombinedOutput(); err != nil {
		t.Fatalf("below the limit: %v %q", err, out)
	}
	s := stats(t, below)
	if s.PidsDenied != 0 || s.HasPidsPeak && (s.PidsPeak < 9 || s.PidsPeak > 10) {
		t.Errorf("below the limit: %+v", s)
	}

	above := newGroup(t, p, lim)
	if out, err := inside(above, nil, "/bin/sh", "-c", strings.Replace(script, "%", "20", 1)).CombinedOutput(); err == nil {
		t.Errorf("20 processes were made with a limit of 10: %q", out)
	}
	waitEmpty(t, above)
	n, err := above.PidsDenied()
	if err != nil || n < 1 {
		t.Errorf("denied %d, %v", n, err)
	}
	if s := stats(t, above); s.PidsDenied != n || s.HasPidsPeak && s.PidsPeak != 10 {
		t.Errorf("above the limit: %+v", s)
	}
}

// TestForkBomb: case 18. It stays within the limit, and is gone after the kill.
func TestForkBomb(t *testing.T) {
	p := openParent(t)
	lim := testLimits()
	lim.Pids = 40
	g := newGroup(t, p, lim)
	cmd := inside(g, nil, "/bin/sh", "-c", "b() { b | b & }; while :; do b; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n, err := g.PidsDenied()
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the bomb was not stopped")
		}
	}
	kill(t, g)
	<-done
	if s := stats(t, g); s.HasPidsPeak && s.PidsPeak > lim.Pids {
		t.Errorf("%+v", s)
	}
}

// TestCPU compares shares, not times: a fifth of a CPU against a whole one.
func TestCPU(t *testing.T) {
	p := openParent(t)
	used := func(cpus float64) (time.Duration, time.Duration, string) {
		lim := testLimits()
		lim.CPUQuota = CPUs(cpus)
		g := newGroup(t, p, lim)
		begin := time.Now()
		if out, err := helper(g, "spin:1s").CombinedOutput(); err != nil {
			t.Fatalf("%v %q", err, out)
		}
		wall := time.Since(begin)
		s := stats(t, g)
		if !s.HasCPU {
			t.Skip("no cpuacct")
		}
		return s.CPU, wall, readFile(t, g, "cpu", "cpu.stat")
	}
	slow, wall, text := used(0.2)
	fast, _, _ := used(1)
	if slow > wall*35/100 {
		t.Errorf("0.2 CPUs used %v in %v", slow, wall)
	}
	if n, err := parseKey([]byte(text), "nr_throttled"); err != nil || n == 0 {
		t.Errorf("never throttled (%v): %s", err, text)
	}
	if fast < slow*3/2 {
		t.Errorf("a whole CPU gave %v, a fifth %v", fast, slow)
	}
}

// TestUsageOfKilled: the CPU time of killed grandchildren counts too.
func TestUsageOfKilled(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, testLimits())
	cmd := inside(g, nil, "/bin/sh", "-c", "trap '' CHLD; (while :; do :; done) & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	kill(t, g)
	cmd.Wait()
	if s := stats(t, g); s.HasCPU && s.CPU < 20*time.Millisecond {
		t.Errorf("%v", s.CPU)
	}
}

// kill ends all of g as the supervisor does: cgroup.kill, on v1 (where PID 1 of
// a pid namespace would be killed) one process after the other.
func kill(t *testing.T, g *Group) {
	t.Helper()
	done, err := g.Kill()
	if err != nil {
		t.Fatal(err)
	}
	if _, v2 := g.CloneFD(); v2 != done {
		t.Errorf("v2 %v, killed %v", v2, done)
	}
	if !done {
		for _, i := range g.made {
			dir, err := g.parent.trees[i].dir.OpenDir(g.id)
			if err != nil {
				t.Fatal(err)
			}
			err = killAll(dir, time.Now().Add(5*time.Second))
			dir.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	waitEmpty(t, g)
}

func waitEmpty(t *testing.T, g *Group) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		pids, err := procs(g.parent.trees[0].dir, g.id)
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			return
		}
		if time.Now().After(end) {
			out, _ := exec.Command("ps", "-ef").Output()
			t.Fatalf("pids %v remain\n%s", pids, out)
		}
	}
}
