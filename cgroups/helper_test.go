package cgroups

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// helperEnv makes the test binary act as one of the helpers below.
const helperEnv = "SBXRUN_CGROUPS_HELPER"

func TestMain(m *testing.M) {
	switch mode, arg, _ := strings.Cut(os.Getenv(helperEnv), ":"); mode {
	case "":
		os.Exit(m.Run())
	case "spin": // burn CPU for that long
		d, _ := time.ParseDuration(arg)
		for end := time.Now().Add(d); time.Now().Before(end); {
		}
	case "queue": // fill the buffers of that many loopback connections
		n, _ := strconv.Atoi(arg)
		fail(queueTCP(n))
	case "use": // the whole life of a group, as whoever we are
		fail(useGroup(arg))
	case "reap":
		l, err := Detect()
		fail(err)
		fail(Reap(l, arg))
	case "owner": // a supervisor that will be killed
		fail(ownGroups(arg))
	default:
		fail(fmt.Errorf("unknown helper %q", mode))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func useGroup(id string) error {
	l, err := Detect()
	if err != nil {
		return err
	}
	p, err := Open(l, id)
	if err != nil {
		return err
	}
	g, err := p.New("a", testLimits())
	if err != nil {
		return err
	}
	if out, err := inside(g, nil, "/bin/sh", "-c", "echo hello").CombinedOutput(); err != nil || string(out) != "hello\n" {
		return fmt.Errorf("run: %w %q", err, out)
	}
	s, err := g.Stats()
	if err != nil {
		return err
	}
	if s.MemoryPeak == 0 || s.CPU == 0 {
		return fmt.Errorf("nothing was counted: %+v", s)
	}
	if err := g.Remove(); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

func queueTCP(connections int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	total, chunk := 0, make([]byte, 64<<10)
	for range connections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		if _, err := l.Accept(); err != nil {
			return err
		}
		// Never read, never closed: what was sent stays in the kernel.
		for {
			c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			n, err := c.Write(chunk)
			total += n
			if err != nil {
				break
			}
		}
	}
	fmt.Println(total)
	return nil
}

func ownGroups(id string) error {
	l, err := Detect()
	if err != nil {
		return err
	}
	p, err := Open(l, id)
	if err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		g, err := p.New(name, testLimits())
		if err != nil {
			return err
		}
		if err := inside(g, nil, "/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait").Start(); err != nil {
			return err
		}
		for n := 0; n < 3; time.Sleep(5 * time.Millisecond) {
			pids, err := procs(p.trees[0].dir, name)
			if err != nil {
				return err
			}
			n = len(pids)
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
	return nil
}

func testLimits() Limits { return Limits{Memory: 64 << 20, CPUQuota: CPUs(1), Pids: 32} }

// join is the launcher's part in shell, which has one thread: enter each of
// the descriptors from 3 on, close it, become the program.
const join = `n=$1; shift; f=3
while [ $f -lt $((n+3)) ]; do echo 0 >&$f || exit 99; eval "exec $f>&-"; f=$((f+1)); done
exec "$@"`

// inside returns a command that runs argv in g.
func inside(g *Group, env []string, argv ...string) *exec.Cmd {
	fds := g.JoinFDs()
	cmd := exec.Command("/bin/sh", append([]string{"-c", join, "sh", strconv.Itoa(len(fds))}, argv...)...)
	for _, fd := range fds {
		dup, err := syscall.Dup(fd)
		if err != nil {
			panic(err)
		}
		syscall.CloseOnExec(dup)
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(dup), "tasks"))
	}
	if fd, ok := g.CloneFD(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	}
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	return cmd
}

// helper runs the test binary as a helper in g.
func helper(g *Group, mode string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return inside(g, []string{helperEnv + "=" + mode}, self)
}

// requireRoot says what the test needs; on CI its absence is a failure.
func requireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs root")
	}
	t.Skip("needs root")
}

var testNumber atomic.Int64

func uniqueID() string { return fmt.Sprintf("t%d-%d", os.Getpid(), testNumber.Add(1)) }

// openParent opens a parent of its own for the test and checks at the end that
// Close leaves nothing.
func openParent(t testing.TB) *Parent {
	t.Helper()
	requireRoot(t)
	l, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if m := l.Missing(); len(m) > 0 {
		t.Fatalf("%v (hint: %s)", m[0], m[0].Hint)
	}
	id := uniqueID()
	p, err := Open(l, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
			if err := Reap(l, id); err != nil {
				t.Error(err)
			}
		}
		nothingLeft(t, l, id)
	})
	return p
}

func nothingLeft(t testing.TB, l *Layout, id string) {
	t.Helper()
	left, err := Leftovers(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range left {
		if x == id {
			t.Errorf("directories of %s are left", id)
		}
	}
}

func newGroup(t testing.TB, p *Parent, lim Limits) *Group {
	t.Helper()
	g, err := p.New(uniqueID(), lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	return g
}

func stats(t testing.TB, g *Group) Stats {
	t.Helper()
	s, err := g.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readFile reads one of g's files.
func readFile(t testing.TB, g *Group, controller, file string) string {
	t.Helper()
	for _, i := range g.made {
		tr := &g.parent.trees[i]
		if tr.has(controller) {
			b, err := tr.dir.ReadAll(g.id+"/"+file, 4096)
			if err != nil {
				t.Fatal(err)
			}
			return string(bytes.TrimSpace(b))
		}
	}
	t.Fatalf("no controller %s", controller)
	return ""
}

func copySelf(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbxrun-cgroups-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(dir+"/helper", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	return dir + "/helper"
}
