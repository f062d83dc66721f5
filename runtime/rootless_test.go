package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

// strangerID is a user and group of no account.
const strangerID = 61185

// strangerCopy puts the test binary and a state directory where a stranger
// reaches them.
func strangerCopy(t testing.TB) (bin, state string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sbxrun-stranger-")
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
	bin, state = filepath.Join(dir, "test"), filepath.Join(dir, "state")
	f, err := os.OpenFile(bin, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, in)
	if err := errors.Join(err, f.Close(), os.Mkdir(state, 0o700), os.Chown(state, strangerID, strangerID)); err != nil {
		t.Fatal(err)
	}
	return bin, state
}

func asStranger(bin, mode string, groups ...uint32) *exec.Cmd {
	cmd := exec.Command(bin)
	cmd.Env = []string{"PATH=/usr/bin:/bin", helperEnv + "=" + mode}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: strangerID, Gid: strangerID, Groups: groups}}
	return cmd
}

// Case 28: without a delegated cgroup nothing starts, and the fix is named.
func TestRootlessWithoutDelegation(t *testing.T) {
	requireRoot(t)
	bin, state := strangerCopy(t)
	var info openInfo
	answer(t, asStranger(bin, "open:"+state), &info)
	if info.Code != errdef.Unsupported || !strings.Contains(info.Text, "limit cannot be enforced") || !strings.Contains(info.Hint, "root") {
		t.Errorf("%+v", info)
	}
	if got := names(t, state); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	answer(t, asStranger(bin, "open:"), &info)
	if info.Code != errdef.Unsupported || !strings.Contains(info.Hint, "state-dir") {
		t.Errorf("without a state directory: %+v", info)
	}
}

// delegated makes a cgroup for the stranger in each v1 hierarchy.
func delegated(t testing.TB) []string {
	t.Helper()
	var dirs []string
	for _, c := range []string{"memory", "cpu", "cpuacct", "pids"} {
		dir := fmt.Sprintf("/sys/fs/cgroup/%s/stranger-%d", c, os.Getpid())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no cgroup v1 hierarchy for %s: %v", c, err)
		}
		t.Cleanup(func() {
			eventually(t, "the end of "+dir, slow, func() bool { return syscall.Rmdir(dir) != syscall.EBUSY })
		})
		for _, n := range []string{".", "cgroup.procs"} {
			if err := os.Chown(filepath.Join(dir, n), strangerID, strangerID); err != nil {
				t.Fatal(err)
			}
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// asDelegated runs a helper as the stranger, in the cgroups.
func asDelegated(t testing.TB, bin, mode string, dirs []string) *exec.Cmd {
	t.Helper()
	script := `for d in "$@"; do echo $$ > $d/cgroup.procs; done; exec setpriv --reuid=$U --regid=$U --clear-groups "$B"`
	cmd := exec.Command("/bin/sh", append([]string{"-ec", script, "sh"}, dirs...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", helperEnv + "=" + mode, fmt.Sprint("U=", strangerID), "B=" + bin}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	return cmd
}

type rootlessInfo struct {
	Status, Bomb, OOM, Escape string
	Reasons                   []Reason
	Denials                   uint64
	Files                     []string
}

func helperRootless(dir string) (any, error) {
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var info rootlessInfo
	run := func(p Policy) (string, *Result, error) {
		var out bytes.Buffer
		r, err := h.Run(context.Background(), p, RunOptions{Stdout: &out, Stderr: &out})
		if r != nil {
			info.Reasons = append(info.Reasons, r.Reason)
		}
		return out.String(), r, err
	}
	if info.Status, _, err = run(NewPolicy("sh", "-c", "id -u; cat /proc/self/status /proc/self/uid_map; cat /proc/self/mountinfo")); err != nil {
		return nil, err
	}
	p := NewPolicy("bash", "-c", ":(){ :|:& };:; wait")
	p.Limits.Timeout = time.Minute
	if info.Bomb, _, err = run(p); err != nil {
		return nil, err
	}
	if info.OOM, _, err = run(NewPolicy("/usr/bin/python3", "-c", "x = bytearray(400 << 20)")); err != nil {
		return nil, err
	}
	var r *Result
	if info.Escape, r, err = run(NewPolicy("/usr/bin/python3", "-c", `
import socket, os, ctypes
try: socket.create_connection(("1.1.1.1", 1))
except OSError as e: print(e.errno)
print(os.path.exists("/root"), os.path.exists("/tmp/sbxrun-x"), ctypes.CDLL(None).unshare(0x10000000))
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(); socket.create_connection(l.getsockname()); print("local")
`)); err != nil {
		return nil, err
	}
	info.Denials = r.NetworkDenials
	if err := h.Close(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		info.Files = append(info.Files, e.Name())
	}
	return info, err
}

// With delegated cgroups a real sandbox runs without privilege, with every
// limit in force.
func TestRootless(t *testing.T) {
	requireRoot(t)
	bin, state := strangerCopy(t)
	var info rootlessInfo
	answer(t, asDelegated(t, bin, "rootless:"+state, delegated(t)), &info)
	if !strings.HasPrefix(info.Status, "1000\n") || statusField(info.Status, "CapEff") != "0000000000000000" ||
		statusField(info.Status, "CapBnd") != "0000000000000000" || statusField(info.Status, "NoNewPrivs") != "1" ||
		statusField(info.Status, "Seccomp_filters") != "2" || statusField(info.Status, "Groups") != "" && statusField(info.Status, "Groups") != "1000" {
		t.Errorf("identity: %s", info.Status)
	}
	for _, m := range parseMounts(info.Status) {
		if m.fs == "sysfs" || strings.HasPrefix(m.fs, "cgroup") || len(m.peers) != 0 {
			t.Errorf("mount %+v", m)
		}
	}
	if want := []Reason{ReasonExited, ReasonPidsLimit, ReasonOOM, ReasonExited}; fmt.Sprint(info.Reasons) != fmt.Sprint(want) {
		t.Errorf("reasons %v, want %v", info.Reasons, want)
	}
	if info.Escape != "101\nFalse False -1\nlocal\n" || info.Denials != 1 {
		t.Errorf("denials %d: %q", info.Denials, info.Escape)
	}
	if len(info.Files) != 0 {
		t.Errorf("left: %v", info.Files)
	}
}

// A caller whose groups would stay with the program is refused.
func TestRootlessWithGroups(t *testing.T) {
	requireRoot(t)
	bin, state := strangerCopy(t)
	dirs := delegated(t)
	cmd := asDelegated(t, bin, "open:"+state, dirs)
	cmd.Args[2] = strings.Replace(cmd.Args[2], "--clear-groups", "--groups=61186", 1)
	var info openInfo
	answer(t, cmd, &info)
	if info.Code != errdef.Unsupported || !strings.Contains(info.Text, "61186") || !strings.Contains(info.Hint, "clear-groups") {
		t.Errorf("%+v", info)
	}
	answer(t, asDelegated(t, bin, "open:"+state, dirs), &info)
	if info.Text != "opened" {
		t.Errorf("control: %+v", info)
	}
}
