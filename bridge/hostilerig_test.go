package bridge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The hostile tests play the program: a child process of another uid (attacker)
// works on real tmpfs mounts in a private mount namespace.

const (
	nsEnv       = "SBX_BRIDGE_TEST_NS"
	attackEnv   = "SBX_BRIDGE_TEST_ATTACK"
	attackerUID = 54321
)

// inMountNamespace runs the calling test again in a mount namespace of its own
// and returns true in there. It requires root.
func inMountNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(nsEnv) == t.Name() {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("requires root")
		}
		t.Skip("requires root")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), nsEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in the namespace: %v\n%s", err, out)
	} else if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("did not run:\n%s", out)
	}
	return false
}

// mountRig serves two tmpfs mounts laid out as in a sandbox: the attacker sees
// req as it is and resp through a read-only bind at view/resp.
func mountRig(t *testing.T, cfg Config, tools ...Tool) (*rig, string) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(src, at, typ string, flags uintptr, data string) {
		t.Helper()
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount(src, at, typ, flags, data); err != nil {
			t.Fatalf("mount %s: %v", at, err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	}
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	mount("tmpfs", filepath.Join(dir, "req"), "tmpfs", flags, "size=4m,nr_inodes=512,mode=1733")
	mount("tmpfs", filepath.Join(dir, "resp"), "tmpfs", flags, "size=1m,nr_inodes=128,mode=711")
	view := filepath.Join(dir, "view")
	mount(filepath.Join(dir, "resp"), filepath.Join(view, "resp"), "", syscall.MS_BIND, "")
	if err := syscall.Mount("", filepath.Join(view, "resp"), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY|flags, ""); err != nil {
		t.Fatal(err)
	}
	if cfg.MaxCalls == 0 {
		cfg.MaxCalls = 10000
	}
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	cfg.UID = attackerUID
	return newRigOn(t, w, dir, cfg, append(tools, echoTool())...), view
}

// attacker is the hostile child. It is python3 because it does raw system calls
// from a text that stands next to the test.
type attacker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Scanner
}

const attackerLoop = `
import os, sys, socket, fcntl, ctypes, json, time, errno, signal
signal.signal(signal.SIGIO, signal.SIG_IGN) # a broken lease must not kill us
def put(id, body):
    p = "req/req_%s.json" % id
    with open(p + ".tmp", "wb") as f: f.write(body if isinstance(body, bytes) else body.encode())
    os.rename(p + ".tmp", p)
def err(f, *a):
    try: f(*a)
    except OSError as e: return errno.errorcode[e.errno]
    return "done"
for line in sys.stdin:
    try: exec(json.loads(line), globals())
    except BaseException as e: print("EXC", repr(e).replace("\n", " "))
    print("."); sys.stdout.flush()
`

func newAttacker(t *testing.T, r *rig) *attacker {
	t.Helper()
	a := &attacker{t: t, cmd: exec.Command("/usr/bin/python3", "-I", "-u", "-c", attackerLoop)}
	a.cmd.Dir = filepath.Dir(r.req)
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: attackerUID, Gid: attackerUID}}
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = a.cmd.Wait() })
	a.in, a.out = bufio.NewWriter(in), bufio.NewScanner(out)
	return a
}

// do runs Python statements in the attacker and returns what they print.
func (a *attacker) do(format string, args ...any) string {
	a.t.Helper()
	_, _ = fmt.Fprintf(a.in, "%s\n", quoteJSON(fmt.Sprintf(format, args...)))
	if err := a.in.Flush(); err != nil {
		a.t.Fatal(err)
	}
	var lines []string
	for {
		if !a.out.Scan() {
			a.t.Fatalf("the attacker died in %s", format)
		}
		if a.out.Text() == "." {
			break
		}
		lines = append(lines, a.out.Text())
	}
	got := strings.Join(lines, "\n")
	if strings.Contains(got, "EXC") {
		a.t.Errorf("the attack did not work: %s", got)
	}
	return got
}

// background runs Python statements and closes the channel at their end.
func (a *attacker) background(format string, args ...any) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.do(format, args...)
	}()
	return done
}

func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// control is the positive control of every denied case: the attacker's ordinary
// call is answered.
func (a *attacker) control(r *rig, id string) {
	a.t.Helper()
	a.do("put('%s', '{\"tool\":\"echo\",\"args\":{\"v\":\"%s\"}}')", id, id)
	if got := r.waitReply(id, 2*time.Second); string(got.Result) != `"`+id+`"` {
		a.t.Fatalf("control call: %+v", got)
	}
	a.do("os.unlink('req/req_%s.json')", id)
}
