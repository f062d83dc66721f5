package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/cgroups"
)

// helperEnv makes the test binary act as an embedding host (helpers_test.go).
const helperEnv = "SBXRUN_RUNTIME_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperEnv); mode != "" {
		os.Exit(runHelper(mode))
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	os.RemoveAll(scratch())
	os.Exit(code)
}

// scratch is a directory of this test run, for the state and for programs.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "sbxrun-runtime-")
	if err != nil {
		panic(err)
	}
	return dir
})

var shared struct {
	sync.Mutex
	host *Host
	dir  string
}

// testHost returns the Host that the tests of this run share.
func testHost(t testing.TB) *Host {
	t.Helper()
	requireRoot(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.host == nil {
		shared.dir = filepath.Join(scratch(), "state")
		h, err := Open(Options{StateDir: shared.dir})
		if err != nil {
			t.Fatal(err)
		}
		shared.host = h
	}
	return shared.host
}

// closeShared closes the shared Host and checks that nothing is left of it.
func closeShared() error {
	h := shared.host
	if h == nil {
		return nil
	}
	if err := h.Close(); err != nil {
		return err
	}
	return nothingLeft(shared.dir, h.self.id)
}

// nothingLeft checks what a closed host may have left on the machine.
func nothingLeft(stateDir, id string) error {
	entries, err := os.ReadDir(stateDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		return fmt.Errorf("%s is left in the state directory", e.Name())
	}
	l, err := cgroups.Detect()
	if err != nil {
		return err
	}
	left, err := cgroups.Leftovers(l)
	if err != nil {
		return err
	}
	for _, x := range left {
		if x == id {
			return fmt.Errorf("cgroups of %s are left", id)
		}
	}
	return nil
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

// ended is one finished run with what it wrote.
type ended struct {
	*Result
	Out, Err string
}

// String is for failure messages.
func (e ended) String() string {
	show := func(s string) string {
		if len(s) > 400 {
			return s[:200] + " ... " + s[len(s)-200:]
		}
		return s
	}
	var code, sig any = "-", "-"
	if e.ExitCode != nil {
		code = *e.ExitCode
	}
	if e.Signal != nil {
		sig = *e.Signal
	}
	s := fmt.Sprintf("%s exit=%v signal=%v out=%q err=%q", e.Reason, code, sig, show(e.Out), show(e.Err))
	if e.Error != nil {
		s += fmt.Sprintf(" error=%+v", *e.Error)
	}
	return s
}

// ok checks for an exit with 0 and no error.
func (e ended) ok(t testing.TB) ended {
	t.Helper()
	if !e.Started || e.Reason != ReasonExited || e.ExitCode == nil || *e.ExitCode != 0 || e.Error != nil {
		t.Errorf("did not end well: %v", e)
	}
	return e
}

// runOn runs a policy and collects its output.
func runOn(t testing.TB, h *Host, p Policy, o RunOptions) ended {
	t.Helper()
	var out, errs bytes.Buffer
	if o.Stdout == nil {
		o.Stdout = &out
	}
	if o.Stderr == nil {
		o.Stderr = &errs
	}
	r, err := h.Run(context.Background(), p, o)
	if (err != nil) == r.Started {
		t.Errorf("error %v and started %v", err, r.Started)
	}
	return ended{r, out.String(), errs.String()}
}

type tweak func(*Policy)

func runArgs(t testing.TB, args []string, tweaks ...tweak) ended {
	t.Helper()
	p := NewPolicy(args...)
	for _, f := range tweaks {
		f(&p)
	}
	return runOn(t, testHost(t), p, RunOptions{})
}

// sh runs a shell script in a sandbox.
func sh(t testing.TB, script string, tweaks ...tweak) ended {
	t.Helper()
	return runArgs(t, []string{"bash", "-c", script}, tweaks...)
}

// py runs a Python program in a sandbox.
func py(t testing.TB, program string, tweaks ...tweak) ended {
	t.Helper()
	return runArgs(t, []string{"/usr/bin/python3", "-c", program}, tweaks...)
}

func timeout(d time.Duration) tweak { return func(p *Policy) { p.Limits.Timeout = d } }
func pids(n int64) tweak            { return func(p *Policy) { p.Limits.Pids = n } }
func memory(n int64) tweak          { return func(p *Policy) { p.Limits.SetMemory(n) } }
func withFile(target string, mode uint32, data []byte) tweak {
	return func(p *Policy) { p.Files = append(p.Files, File{Data: data, Target: target, Mode: mode}) }
}

var compiled sync.Map

// compileC returns a static program for a sandbox.
func compileC(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(source + strings.Join(flags, " ")))
	name := filepath.Join(scratch(), hex.EncodeToString(sum[:8]))
	if b, ok := compiled.Load(name); ok {
		return b.([]byte)
	}
	cmd := exec.Command("cc", append([]string{"-static", "-O1", "-x", "c", "-", "-o", name}, flags...)...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	compiled.Store(name, b)
	return b
}

// runC runs a C program in a sandbox.
func runC(t testing.TB, source string, args []string, tweaks ...tweak) ended {
	t.Helper()
	tweaks = append(tweaks, withFile("prog", 0o755, compileC(t, source)))
	return runArgs(t, append([]string{"/workspace/prog"}, args...), tweaks...)
}

// slow is how much longer than promised something may take on this machine:
// the tests share it with others, and the race detector with them.
const slow = 5 * time.Second

// eventually waits for a condition of the machine that has no event.
func eventually(t testing.TB, what string, within time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s: not within %v", what, within)
			return
		}
	}
}
