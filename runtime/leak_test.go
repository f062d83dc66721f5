package runtime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// footprint is what a host has on the machine while nothing runs.
type footprint struct {
	fds, launcherFDs []string
	goroutines       int
	mounts, state    string
	cgroups          []string
	processes        []string
}

func fdTargets(pid string) []string {
	var out []string
	entries, _ := os.ReadDir("/proc/" + pid + "/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/" + pid + "/fd/" + e.Name())
		if err == nil {
			kind, _, _ := strings.Cut(target, "[")
			out = append(out, strings.TrimRight(kind, "0123456789"))
		}
	}
	slices.Sort(out)
	return out
}

// measure takes the footprint of h, whose state directory is dir.
func measure(t *testing.T, h *Host, dir string) footprint {
	t.Helper()
	goruntime.GC()
	f := footprint{fds: fdTargets("self"), goroutines: goruntime.NumGoroutine(), state: strings.Join(names(t, dir), " ")}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	f.mounts = string(b)
	f.cgroups, _ = filepath.Glob("/sys/fs/cgroup/*/sbxrun-" + h.self.id + "*/*/")
	// Processes whose host uid belongs to this supervisor, and children of its launcher.
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		text, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(strings.Fields(statusField(string(text), "Uid") + " ?")[0], 10, 32)
		if uid >= uint64(h.self.firstID) && uid < uint64(h.self.firstID)+idBlock {
			f.processes = append(f.processes, e.Name()+" "+statusField(string(text), "Name"))
		}
	}
	for _, pid := range launcherOf(t) {
		for _, fd := range fdTargets(strconv.Itoa(pid)) {
			f.launcherFDs = append(f.launcherFDs, fd)
		}
		for _, c := range children(pid) {
			if alive(c) {
				f.processes = append(f.processes, fmt.Sprint(c, " ", comm(c)))
			}
		}
	}
	slices.Sort(f.launcherFDs)
	return f
}

// Promise 3: 1,000 runs, a part of them ended by force and a part refused,
// leave no process, mount, cgroup, descriptor, goroutine or file. Namespaces
// live through a process, a descriptor or a mount, so they are counted by
// those: the launcher's descriptors are compared too.
func TestNothingIsLeftBehind(t *testing.T) {
	requireRoot(t)
	dir := privateDir(t)
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	set := emptySet(t)
	one := func(i int) {
		p := NewPolicy("true")
		switch i % 10 {
		case 1:
			p = NewPolicy("bash", "-c", "sleep 1000 & setsid sleep 1000 & exit 3")
		case 2:
			p.Bridge.Tools = set
		case 3:
			p = NewPolicy("no-such-program")
		case 4:
			p.Cwd = "/nonexistent"
		case 5:
			p = NewPolicy("bash", "-c", "kill -9 $$")
		case 6:
			p.Files = []File{{Data: []byte("x"), Target: "a"}}
			p.Outputs = []Output{{Path: "a"}, {Path: "missing"}}
		case 7:
			p.Files = []File{{Source: "/nonexistent", Target: "a"}}
		case 8:
			p.Binds = []Bind{{"/opt", "/opt/x" + strconv.Itoa(i%300)}} // more templates than slots
		case 9:
			p = NewPolicy("sleep", "1000")
			ctx, cancel := context.WithCancel(context.Background())
			s, err := h.Start(ctx, p, RunOptions{})
			cancel()
			if err != nil {
				t.Error(err)
				return
			}
			s.Wait()
			return
		}
		h.Run(context.Background(), p, RunOptions{})
	}
	runs := func(n int) {
		var wg sync.WaitGroup
		work := make(chan int)
		for range 4 {
			wg.Go(func() {
				for i := range work {
					one(i)
				}
			})
		}
		for i := range n {
			work <- i
		}
		close(work)
		wg.Wait()
	}
	runs(700) // caches and pools are full: every template slot is in use
	before := measure(t, h, dir)
	runs(1000)
	var after footprint
	eventually(t, "goroutines and descriptors to go back", slow, func() bool {
		after = measure(t, h, dir)
		return after.goroutines <= before.goroutines && len(after.launcherFDs) <= len(before.launcherFDs) && len(after.fds) <= len(before.fds)
	})
	if len(after.processes) != 0 || len(after.cgroups) != 0 {
		t.Errorf("processes %v, cgroups %v", after.processes, after.cgroups)
	}
	if after.mounts != before.mounts || after.state != before.state {
		t.Errorf("mounts or state have changed: %s, %s", before.state, after.state)
	}
	if !slices.Equal(after.fds, before.fds) {
		t.Errorf("descriptors: %v, then %v", before.fds, after.fds)
	}
	if len(after.launcherFDs) != len(before.launcherFDs) {
		t.Errorf("the launcher's descriptors: %v, then %v", before.launcherFDs, after.launcherFDs)
	}
	if after.goroutines > before.goroutines {
		t.Errorf("goroutines: %d, then %d", before.goroutines, after.goroutines)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := nothingLeft(dir, h.self.id); err != nil {
		t.Error(err)
	}
}
