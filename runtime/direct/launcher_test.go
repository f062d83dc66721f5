package direct

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

func start(t testing.TB) *Launcher {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	l, err := New(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Spawn(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func fdCount(pid int) int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries)
}

func childCount(pid int) int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	n := 0
	for _, f := range files {
		b, _ := os.ReadFile(f)
		n += len(strings.Fields(string(b)))
	}
	return n
}

// await waits for a state of another process.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

func template(t testing.TB, n int) *plan.Shared {
	t.Helper()
	v := &rootfs.View{Dirs: []rootfs.Dir{{Path: "/mnt", Mode: 0o755}, {Path: "/d" + fmt.Sprint(n), Mode: 0o755}}}
	s, err := plan.NewShared(plan.Template(v, false))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// failing is a first plan that fails at its only step: no such descriptor. A
// plan that a test makes up must never do more than that in the host's own
// namespaces: the launcher executes what it is told.
func failing() *plan.Plan {
	return &plan.Plan{Ops: []plan.Operation{{Op: plan.OpJoin, Args: [4]uint64{150}}}}
}

// apart is a first plan that goes into fresh namespaces before the operation.
func apart(o plan.Operation) *plan.Plan {
	const all = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | 0x2000000
	return &plan.Plan{Ops: []plan.Operation{{Op: plan.OpEnter}, {Op: plan.OpUnshare, Args: [4]uint64{all}}, o}}
}

// launch runs both parts; the second is a program that is never reached.
func launch(t testing.TB, l *Launcher, tmpl *plan.Shared, first *plan.Plan) error {
	t.Helper()
	shared, err := plan.NewShared(first)
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Prepare(Request{Template: tmpl, Plan: shared, CgroupFD: -1})
	if err != nil {
		return err
	}
	null, err := sys.OpenNull()
	if err != nil {
		t.Fatal(err)
	}
	defer sys.CloseAll([]int{null})
	second := &plan.Plan{Ops: []plan.Operation{{Op: plan.OpExec, Args: [4]uint64{1, 1, 0}, Strings: []string{"/nonexistent/x", "x"}}}}
	err = p.Start(Run{Plan: second, Stdio: [3]int{null, null, null}})
	if err == nil {
		p.Kill()
		p.Wait(nil)
		p.Close()
		t.Fatal("the sandbox started")
	}
	return err
}

// settle waits until the launcher has done all that follows its last launch: the
// children are gone and the next network namespace, a descriptor of its own, is
// made. The launcher takes one request after the other, so the answer to a new
// template says so.
func settle(t testing.TB, l *Launcher) {
	t.Helper()
	await(t, "the launcher's rest", func() bool { return childCount(l.pid) == 0 })
	if err := l.Load(template(t, 99)); err != nil {
		t.Fatal(err)
	}
}

// Every failure comes back typed and leaves nothing: no child, no descriptor
// of either side.
func TestFailedLaunchesLeaveNothing(t *testing.T) {
	l := start(t)
	tmpl := template(t, 0)
	try := func() {
		if err := launch(t, l, tmpl, failing()); !errdef.Is(err, errdef.Setup) || !strings.Contains(err.Error(), "join-cgroup") {
			t.Fatalf("%v", err)
		}
	}
	for range 10 {
		try()
	}
	settle(t, l)
	own, theirs := fdCount(os.Getpid()), fdCount(l.pid)
	for range 200 {
		try()
	}
	await(t, "the end of all children", func() bool { return childCount(l.pid) == 0 })
	await(t, "descriptors to go back", func() bool { return fdCount(os.Getpid()) <= own && fdCount(l.pid) <= theirs })
}

// Every operation with operands that make no sense fails with its own name or
// does nothing; the launcher serves on.
func TestSenselessOperationsAreHarmless(t *testing.T) {
	l := start(t)
	tmpl := template(t, 0)
	hostname, _ := os.Hostname()
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for code := plan.Op(1); code < 80; code++ {
		for n := range 5 {
			o := plan.Operation{Op: code, Args: [4]uint64{1 << 40, 1 << 40, 1 << 40, 1 << 40}, Strings: make([]string, n)}
			p := apart(o)
			if data, err := p.Encode(); err != nil {
				t.Fatal(err)
			} else if _, err := plan.Decode(data); err != nil {
				continue // refused by form, see package plan
			}
			var e *errdef.Error
			if err := launch(t, l, tmpl, p); !errors.As(err, &e) {
				t.Errorf("%v: %v", code, err)
			}
		}
	}
	if err := launch(t, l, tmpl, failing()); !strings.Contains(err.Error(), "join-cgroup") {
		t.Errorf("afterwards: %v", err)
	}
	if now, _ := os.Hostname(); now != hostname {
		t.Errorf("the host's name is %q now", now)
	}
	if now, _ := os.ReadFile("/proc/self/mountinfo"); string(now) != string(mounts) {
		t.Error("the host's mounts have changed")
	}
}

// More templates than slots: the oldest makes room, and comes back when asked for.
func TestTemplatesAreEvicted(t *testing.T) {
	l := start(t)
	for round := range 2 {
		for i := range maxSlots + 10 {
			if err := launch(t, l, template(t, i), failing()); !strings.Contains(fmt.Sprint(err), "join-cgroup") {
				t.Fatalf("round %d, template %d: %v", round, i, err)
			}
		}
	}
	if len(l.slots) != maxSlots {
		t.Errorf("%d slots", len(l.slots))
	}
	used := map[uint32]bool{}
	for _, s := range l.slots {
		if s.index >= maxSlots || used[s.index] {
			t.Errorf("slot %d", s.index)
		}
		used[s.index] = true
	}
}

// A template that cannot be built is an error of its step, and takes no slot.
func TestBrokenTemplate(t *testing.T) {
	l := start(t)
	broken, err := plan.NewShared(plan.Template(&rootfs.View{
		Binds: []rootfs.Bind{{Source: "/nonexistent/sbxrun", Target: "/x", Kind: rootfs.KindDir}}}, false))
	if err != nil {
		t.Fatal(err)
	}
	for range 70 {
		if err := launch(t, l, broken, failing()); !errdef.Is(err, errdef.Setup) || !strings.Contains(err.Error(), "/nonexistent/sbxrun") {
			t.Fatalf("%v", err)
		}
	}
	if len(l.slots) != 0 {
		t.Errorf("%d slots", len(l.slots))
	}
	wrong, err := plan.NewShared(plan.Template(&rootfs.View{Files: []rootfs.File{{Path: "/null", Mode: 0o444}},
		Binds: []rootfs.Bind{{Source: "/dev/zero", Target: "/null", Kind: rootfs.KindChar, Major: 1, Minor: 3}}}, false))
	if err != nil {
		t.Fatal(err)
	}
	// A device that is another than the plan says (CVE-2025-31133).
	if err := launch(t, l, wrong, failing()); err == nil || strings.Contains(err.Error(), "join-cgroup") {
		t.Errorf("/dev/zero passes for /dev/null: %v", err)
	}
}

// Messages out of shape are dropped, with their descriptors; the launcher goes on.
func TestMalformedRequests(t *testing.T) {
	l := start(t)
	launch(t, l, template(t, 0), failing())
	settle(t, l)
	before := fdCount(l.pid)
	null, err := sys.OpenNull()
	if err != nil {
		t.Fatal(err)
	}
	defer sys.CloseAll([]int{null})
	words := func(v ...uint32) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return b
	}
	for _, c := range []struct {
		msg []byte
		fds int
	}{
		{[]byte{1}, 0}, {words(1, 2, 3), 1}, {words(2, 0, 0, 2, 0, 0, 7), 2}, {words(2, 0, 0, 5, 0, 0), 2}, {words(2, 0, 0, 0, 0, 0), 2},
		{words(2, 1<<31, 0, 2, 0, 0), 2}, {words(2, 63, 0, 2, 0, 0), 2}, {words(2, 0, 1<<31, 2, 0, 0), 2}, {words(2, 0, 0, 1, 0, 0), 1},
		{words(1, 1<<31, 0, 2, 0, 0), 2}, {words(1, 0, 0, 1, 0, 0), 1}, {words(1, 0, 0, 2, 0, 0), 2}, {words(3, 1<<31, 0, 0, 0, 0), 0},
		{words(99, 0, 0, 3, 0, 0), 3}, {words(0, 0, 0, 0, 0, 0), 0}, {words(2, 0, 0, 100, 0, 0), 100},
	} {
		fds := make([]int, c.fds)
		for i := range fds {
			fds[i] = null
		}
		if err := sys.SendFDs(l.ctl, c.msg, fds); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
	}
	if err := launch(t, l, template(t, 1), failing()); !strings.Contains(fmt.Sprint(err), "join-cgroup") {
		t.Errorf("afterwards: %v", err)
	}
	await(t, "descriptors to go back", func() bool { return fdCount(l.pid) <= before+1 }) // one more template
}

// A launcher that has died is replaced, once per launch.
func TestLauncherIsReplaced(t *testing.T) {
	l := start(t)
	tmpl := template(t, 0)
	for range 5 {
		old := l.pid
		syscall.Kill(old, syscall.SIGKILL)
		await(t, "its death", func() bool {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", old))
			_, rest, _ := strings.Cut(string(b), ") ")
			return strings.HasPrefix(rest, "Z")
		})
		if err := launch(t, l, tmpl, failing()); !strings.Contains(fmt.Sprint(err), "join-cgroup") {
			t.Fatalf("%v", err)
		}
		if l.pid == old {
			t.Error("the same launcher")
		}
	}
}

func TestConcurrentLaunches(t *testing.T) {
	l := start(t)
	var wg sync.WaitGroup
	for i := range 50 {
		tmpl := template(t, i%7)
		wg.Go(func() {
			if err := launch(t, l, tmpl, failing()); !strings.Contains(fmt.Sprint(err), "join-cgroup") {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
}

func TestTooManyDescriptors(t *testing.T) {
	l := start(t)
	first, err := plan.NewShared(failing())
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Prepare(Request{Template: template(t, 0), Plan: first, CgroupFD: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(Run{Plan: failing(), FileFDs: make([]int, maxFDs)}); !errdef.Is(err, errdef.Invalid) {
		t.Errorf("%v", err)
	}
	await(t, "the end of the sandbox", func() bool { return childCount(l.pid) == 0 })
}

// A sandbox that was prepared and is not wanted leaves nothing.
func TestDiscard(t *testing.T) {
	l := start(t)
	first, err := plan.NewShared(apart(plan.Operation{Op: plan.OpAwait}))
	if err != nil {
		t.Fatal(err)
	}
	tmpl := template(t, 0)
	one := func() {
		p, err := l.Prepare(Request{Template: tmpl, Plan: first, CgroupFD: -1})
		if err != nil {
			t.Fatal(err)
		}
		p.Discard()
	}
	one()
	await(t, "the end of the sandbox", func() bool { return childCount(l.pid) == 0 })
	own, theirs := fdCount(os.Getpid()), fdCount(l.pid)
	for range 100 {
		one()
	}
	await(t, "the end of all children", func() bool { return childCount(l.pid) == 0 })
	await(t, "descriptors to go back", func() bool { return fdCount(os.Getpid()) <= own && fdCount(l.pid) <= theirs })
}

// The launcher shows nothing of the host: no environment, no arguments, its
// image sealed.
func TestLauncherProcess(t *testing.T) {
	t.Setenv("SBXRUN_CANARY", "secret")
	l := start(t)
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", l.pid))
	if err != nil || len(env) != 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", l.pid)); !strings.Contains(exe, "memfd:sbxrun-launcher") {
		t.Errorf("image %s", exe)
	}
	if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/exe", l.pid), os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Error("the image can be opened for writing")
	}
	await(t, "leaving the working directory", func() bool {
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", l.pid))
		return cwd == "/"
	})
}

func TestCloseIsFinal(t *testing.T) {
	l := start(t)
	pid := l.pid
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Error("the launcher lives")
	}
	if err := l.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}
