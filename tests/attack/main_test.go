// Package attack runs hostile programs in real sandboxes. Each is one threat:
// it tries, says what it got, and a test compares that with what must happen. A
// program in C or Python lies in programs/; its first line "control ..." or its
// own checks show that the attempt was a real one.
package attack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
	"github.com/sbxrun/sbxrun/runtime"
)

var host struct {
	sync.Mutex
	*runtime.Host
	dir string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if host.Host != nil {
		if err := host.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = 1
		}
		if left, err := os.ReadDir(filepath.Join(host.dir, "state")); err != nil || len(left) != 0 {
			fmt.Fprintln(os.Stderr, "FAIL: the state directory holds", left, err)
			code = 1
		}
		os.RemoveAll(host.dir)
	}
	os.Exit(code)
}

// theHost is the one host of this test run.
func theHost(t testing.TB) *runtime.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	host.Lock()
	defer host.Unlock()
	if host.Host == nil {
		dir, err := os.MkdirTemp("", "sbxrun-attack-")
		if err != nil {
			t.Fatal(err)
		}
		host.dir = dir
		if host.Host, err = runtime.Open(runtime.Options{StateDir: filepath.Join(dir, "state")}); err != nil {
			t.Fatal(err)
		}
	}
	return host.Host
}

// build compiles a program of programs/ for a sandbox.
func build(t testing.TB, name string, flags ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "prog")
	args := append([]string{"-static", "-O1", "-Wall", "-o", out, filepath.Join("programs", name)}, flags...)
	if msg, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %s: %v: %s", name, err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type tweak func(*runtime.Policy)

// attempt is an ended run.
type attempt struct {
	*runtime.Result
	out, err string
}

func (a attempt) String() string {
	return fmt.Sprintf("%s status %d, error %v\n%s%s", a.Reason, a.ExitStatus(), a.Error, a.out, a.err)
}

func run(t testing.TB, args []string, tweaks ...tweak) attempt {
	t.Helper()
	p := runtime.NewPolicy(args...)
	p.Limits.Timeout = time.Minute
	for _, f := range tweaks {
		f(&p)
	}
	var out, errs bytes.Buffer
	r, err := theHost(t).Run(context.Background(), p, runtime.RunOptions{Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("did not start: %v", err)
	}
	return attempt{r, out.String(), errs.String()}
}

// runC runs a C program of programs/.
func runC(t testing.TB, name string, tweaks ...tweak) attempt {
	t.Helper()
	data := build(t, name)
	return run(t, []string{"/workspace/attack"}, append(tweaks, func(p *runtime.Policy) {
		p.Files = append(p.Files, runtime.File{Data: data, Target: "attack", Mode: 0o755})
	})...)
}

// runPy runs a Python program of programs/.
func runPy(t testing.TB, name string, tweaks ...tweak) attempt {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("programs", name))
	if err != nil {
		t.Fatal(err)
	}
	return run(t, []string{"/usr/bin/python3", "/workspace/attack.py"}, append(tweaks, func(p *runtime.Policy) {
		p.Files = append(p.Files, runtime.File{Data: data, Target: "attack.py"})
	})...)
}

// expect compares the lines "NAME RESULT" of a program with a table in the
// same form; each name is there once on both sides. "A|B" allows both.
func (a attempt) expect(t testing.TB, table string) {
	t.Helper()
	parse := func(s string) map[string]string {
		m := map[string]string{}
		for _, line := range strings.Split(strings.TrimSpace(s), "\n") {
			if name, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				m[name] = strings.TrimSpace(v)
			}
		}
		return m
	}
	got, bad := parse(a.out), false
	for name, want := range parse(table) {
		v, ok := got[name]
		found := false
		for _, w := range strings.Split(want, "|") {
			found = found || v == w
		}
		if !ok || !found {
			bad = true
			t.Errorf("%s: %q, must be %s", name, v, want)
		}
		delete(got, name)
	}
	for name, v := range got {
		bad = true
		t.Errorf("%s: %s is in no table", name, v)
	}
	if bad {
		t.Log(a)
	}
}

// ended checks that the program came to its own end.
func (a attempt) ended(t testing.TB) attempt {
	t.Helper()
	if a.Reason != runtime.ReasonExited || a.ExitStatus() != 0 {
		t.Errorf("%v", a)
	}
	return a
}

func withEcho(t testing.TB) tweak {
	t.Helper()
	echo, err := gofunc.New("echo", "", func(_ context.Context, a struct {
		V any `json:"v"`
	}) (any, error) {
		return a.V, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := bridge.NewSet([]bridge.Tool{echo})
	if err != nil {
		t.Fatal(err)
	}
	return func(p *runtime.Policy) { p.Bridge.Tools = set }
}
