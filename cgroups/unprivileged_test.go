package cgroups

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// strangerID is a user and group of no account: nothing on the host is theirs.
const strangerID = 61184

// asStranger runs the test binary as a helper without privilege, in g if there
// is one.
func asStranger(t *testing.T, g *Group, mode string) (string, error) {
	t.Helper()
	self := copySelf(t)
	cmd := exec.Command(self)
	if g != nil {
		cmd = inside(g, nil, self)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: strangerID, Gid: strangerID}
	cmd.Env = append(cmd.Env, helperEnv+"="+mode, "PATH=/usr/bin:/bin")
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestUnprivilegedRefused: case 28. Without a delegated cgroup nothing starts.
func TestUnprivilegedRefused(t *testing.T) {
	requireRoot(t)
	out, err := asStranger(t, nil, "use:"+uniqueID())
	if err == nil || !strings.Contains(out, `memory limit cannot be enforced: cgroup controller "memory" is not delegated to this process`) {
		t.Errorf("%v %s", err, out)
	}
	if strings.Contains(out, "done") {
		t.Error("a group was made")
	}
}

// TestUnprivilegedDelegated: with directories that are the user's own it works,
// and leaves nothing behind.
func TestUnprivilegedDelegated(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, Limits{Memory: 1 << 30, CPUQuota: CPUs(2), Pids: 200})
	for _, i := range g.made {
		delegate(t, p.trees[i].dir.Path()+"/"+g.id, p.trees[i].version)
	}
	out, err := asStranger(t, g, "use:"+uniqueID())
	if err != nil || out != "done\n" {
		t.Errorf("%v %s", err, out)
	}
	for _, i := range g.made {
		dir, err := p.trees[i].dir.OpenDir(g.id)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := dir.Dirs(); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v, %v", dir.Path(), left, err)
		}
		dir.Close()
	}
}

// TestUnprivilegedNotAlone: on v2 a cgroup with strangers in it cannot become a
// parent, and they are not moved.
func TestUnprivilegedNotAlone(t *testing.T) {
	p := openParent(t)
	g := newGroup(t, p, Limits{Memory: 1 << 30, CPUQuota: CPUs(2), Pids: 200})
	if _, v2 := g.CloneFD(); !v2 {
		t.Skip("v1 has no such rule")
	}
	delegate(t, p.trees[0].dir.Path()+"/"+g.id, 2)
	other := inside(g, nil, "/bin/sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	out, err := asStranger(t, g, "use:"+uniqueID())
	if err == nil || !strings.Contains(out, "holds other processes") {
		t.Errorf("%v %s", err, out)
	}
	waitMember(t, g, other.Process.Pid)
}

// delegate hands a cgroup that the test made to the stranger, as systemd does.
func delegate(t *testing.T, dir string, version int) {
	t.Helper()
	names := []string{".", "cgroup.procs"}
	if version == 2 {
		names = append(names, "cgroup.subtree_control", "cgroup.threads")
	}
	for _, n := range names {
		if err := os.Chown(filepath.Join(dir, n), strangerID, strangerID); err != nil {
			t.Fatal(err)
		}
	}
	// The parents have mode 0700, which keeps a stranger from the look-up.
	for d := dir; strings.Contains(d, prefix); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
