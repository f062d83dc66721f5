package cgroups

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

func TestJoinMovesTheProcess(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, testLimits())
	out, err := inside(g, nil, "/bin/cat", "/proc/self/cgroup").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := parseSelf(out)
	for _, tr := range p.trees {
		name := tr.controllers[0]
		if tr.version == 2 {
			name = ""
		}
		if !strings.HasSuffix(own[name], "/"+p.name+"/"+g.id) {
			t.Errorf("%s: %s", tr.controllers, own[name])
		}
	}
	g.CloseJoin()
	if fds := g.JoinFDs(); len(fds) != 0 {
		t.Errorf("descriptors after CloseJoin: %v", fds)
	}
}

func TestRemoveRefuses(t *testing.T) {
	for name, g := range map[string]*Group{"zero": {}, "root": {id: "/"}, "dots": {id: "..", made: []int{0}}} {
		if err := g.Remove(); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := g.Kill(); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := openParent(t)
	for _, id := range []string{"", ".", "..", "/", "../x", "a/b"} {
		if _, err := p.New(id, testLimits()); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("New(%q): %v", id, err)
		}
		if err := Reap(&Layout{env: hostEnv()}, id); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("Reap(%q): %v", id, err)
		}
	}
}

// TestRemoveBusy: a group with a live process stays, the error names it, and
// Remove works once it is gone.
func TestRemoveBusy(t *testing.T) {
	p := openParent(t)
	g, err := p.New("busy", testLimits())
	if err != nil {
		t.Fatal(err)
	}
	cmd := inside(g, nil, "/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitMember(t, g, cmd.Process.Pid)
	if err := p.Close(); !errdef.Is(err, errdef.State) || !strings.Contains(err.Error(), "busy") {
		t.Errorf("Close: %v", err)
	}
	err = g.Remove()
	if !errdef.Is(err, errdef.State) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", cmd.Process.Pid)) {
		t.Errorf("Remove: %v", err)
	}
	cmd.Process.Kill()
	// Not waited for: a zombie does not keep the group.
	if err := g.Remove(); err != nil {
		t.Errorf("after the kill: %v", err)
	}
	if err := g.Remove(); err != nil {
		t.Errorf("twice: %v", err)
	}
	cmd.Wait()
	if _, err := g.Stats(); !errdef.Is(err, errdef.State) {
		t.Errorf("Stats of a removed group: %v", err)
	}
}

// TestSingle: the supervisor's directory is the group itself.
func TestSingle(t *testing.T) {
	requireRoot(t)
	l, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	before := openFiles(t)
	id := uniqueID()
	g, err := NewSingle(l, id, testLimits())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSingle(l, id, testLimits()); !errdef.Is(err, errdef.Exists) {
		t.Errorf("the same id: %v", err)
	}
	out, err := inside(g, nil, "/bin/cat", "/proc/self/cgroup").Output()
	if err != nil || !strings.Contains(string(out), "/"+prefix+id+"\n") {
		t.Errorf("%v %s", err, out)
	}
	if s := stats(t, g); s.MemoryPeak == 0 {
		t.Errorf("%+v", s)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, l, id)
	noMoreFiles(t, before)

	// One that is left behind, with its process, is reaped as any other.
	g, err = NewSingle(l, id, testLimits())
	if err != nil {
		t.Fatal(err)
	}
	cmd := inside(g, nil, "/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitMember(t, g, cmd.Process.Pid)
	if err := Reap(l, id); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	nothingLeft(t, l, id)
	if err := g.Remove(); err != nil {
		t.Errorf("Remove after the reap: %v", err)
	}
}

func waitMember(t *testing.T, g *Group, pid int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		all := true
		for _, i := range g.made {
			pids, err := procs(g.parent.trees[i].dir, g.id)
			all = all && err == nil && len(pids) == 1 && pids[0] == pid
		}
		if all {
			return
		}
	}
	t.Fatal("the process did not enter")
}

func TestExists(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, testLimits())
	if _, err := p.New(g.id, testLimits()); !errdef.Is(err, errdef.Exists) {
		t.Errorf("the same id: %v", err)
	}
	stats(t, g) // the winner is unharmed
	l, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(l, strings.TrimPrefix(p.name, prefix)); !errdef.Is(err, errdef.Exists) {
		t.Errorf("the same supervisor: %v", err)
	}
	newGroup(t, p, testLimits())
}

// TestNewUndoes: a limit that the kernel refuses leaves no directory.
func TestNewUndoes(t *testing.T) {
	p := openParent(t)
	last := &p.trees[len(p.trees)-1]
	keep := last.tree
	last.version = 3 - keep.version // its files do not exist
	last.controllers = []string{memoryController}
	_, err := p.New("undone", testLimits())
	last.tree = keep
	if !errdef.Is(err, errdef.Unsupported) {
		t.Errorf("%v", err)
	}
	for _, tr := range p.trees {
		if _, err := tr.dir.OpenDir("undone"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", tr.dir.Path(), err)
		}
	}
}

func TestConcurrent(t *testing.T) {
	p := openParent(t)
	runtime.GC()
	before := openFiles(t)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			g, err := p.New(fmt.Sprintf("g%d", i), testLimits())
			if err != nil {
				t.Error(err)
				return
			}
			if out, err := inside(g, nil, "/bin/true").CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
			if s, err := g.Stats(); err != nil || s.MemoryPeak == 0 {
				t.Errorf("%+v %v", s, err)
			}
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	noMoreFiles(t, before)
}

// noMoreFiles checks that no cgroup descriptor stays; those that inside handed
// to a child go with the garbage.
func noMoreFiles(t *testing.T, before int) {
	t.Helper()
	after := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		if after = openFiles(t); after <= before {
			return
		}
	}
	t.Errorf("%d descriptors before, %d after", before, after)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "cgroup") {
			n++
		}
	}
	return n
}

// TestReap: the supervisor is killed, its processes live on; Reap ends them
// and removes all.
func TestReap(t *testing.T) {
	requireRoot(t)
	l, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	other := openParent(t) // must survive
	bystander := newGroup(t, other, testLimits())
	live := inside(bystander, nil, "/bin/sleep", "1000")
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { live.Process.Kill(); live.Wait() }()

	id := uniqueID()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{helperEnv + "=owner:" + id}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()

	base, err := l.env.openBase(l.trees[0])
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	var pids []int
	for _, g := range []string{"a", "b"} {
		in, err := procs(base, prefix+id+"/"+g)
		if err != nil || len(in) != 3 {
			t.Fatalf("%v %v", in, err)
		}
		pids = append(pids, in...)
	}
	if left, err := Leftovers(l); err != nil || !strings.Contains(strings.Join(left, " "), id) {
		t.Errorf("leftovers %v, %v", left, err)
	}
	if err := Reap(l, id); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, l, id)
	for _, pid := range pids {
		if !dead(pid) {
			t.Errorf("pid %d lives", pid)
		}
	}
	if err := live.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other supervisor's process: %v", err)
	}
	if err := Reap(l, id); err != nil {
		t.Errorf("again: %v", err)
	}
}

// dead accepts a zombie: whoever inherited the process may not have waited yet.
func dead(pid int) bool {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(text), ") Z ") || strings.Contains(string(text), ") X ") {
			return true
		}
	}
	return false
}

// TestReapRefusesCaller: an id given by mistake does not end the caller.
func TestReapRefusesCaller(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, testLimits())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(p.name, prefix)
	out, err := inside(g, []string{helperEnv + "=reap:" + id}, self).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the calling process is inside") {
		t.Errorf("%v %s", err, out)
	}
}
