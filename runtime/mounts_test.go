package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

// mountLine is one line of mountinfo (proc_pid_mountinfo(5)).
type mountLine struct {
	point, fs             string
	options, peers, super []string
}

func parseMounts(text string) []mountLine {
	var out []mountLine
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		left, right, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if ok && len(f) >= 6 && len(g) >= 3 {
			out = append(out, mountLine{f[4], g[0], strings.Split(f[5], ","), f[6:], strings.Split(g[2], ",")})
		}
	}
	return out
}

// Threats, Isolation 4.
func TestMountsInside(t *testing.T) {
	p := NewPolicy("cat", "/proc/self/mountinfo")
	p.Bridge.Tools = emptySet(t)
	mounts := parseMounts(runOn(t, testHost(t), p, RunOptions{}).ok(t).Out)
	if len(mounts) < 10 {
		t.Fatalf("%d mounts", len(mounts))
	}
	writable := map[string]bool{"/proc": true, "/dev/pts": true, "/dev/shm": true, "/tmp": true, "/workspace": true, "/workspace/.bridge/req": true}
	devices := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts"}
	top := map[string]mountLine{} // a later mount covers an earlier one on the same point
	for _, m := range mounts {
		top[m.point] = m
	}
	for _, m := range top {
		has := func(o string) bool { return slices.Contains(m.options, o) }
		mask := strings.HasPrefix(m.point, "/proc/")
		if !has("nosuid") {
			t.Errorf("%s is not nosuid: %v", m.point, m.options)
		}
		if !has("nodev") && !slices.Contains(devices, m.point) && !mask {
			t.Errorf("%s is not nodev: %v", m.point, m.options)
		}
		if has("ro") == writable[m.point] {
			t.Errorf("%s: %v", m.point, m.options)
		}
		if len(m.peers) != 0 {
			t.Errorf("%s is in a peer group: %v", m.point, m.peers)
		}
		if m.fs == "sysfs" || m.fs == "cgroup" || m.fs == "cgroup2" || m.fs == "debugfs" || m.fs == "tracefs" || m.fs == "bpf" {
			t.Errorf("%s: %s", m.point, m.fs)
		}
		if m.fs == "tmpfs" && !slices.ContainsFunc(m.super, func(s string) bool { return strings.HasPrefix(s, "nr_inodes=") }) {
			t.Errorf("%s has no inode limit: %v", m.point, m.super)
		}
	}
}

// The host's mount table shows nothing of a sandbox.
func TestMountsOutside(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	x := hold(t, testHost(t), NewPolicy("bash", "-c", "echo ready; read x"))
	during, _ := os.ReadFile("/proc/self/mountinfo")
	if string(before) != string(during) {
		t.Error("the host's mounts have changed")
	}
	x.let()
}

func TestNothingOutsideIsWritable(t *testing.T) {
	r := sh(t, `for f in /x /usr/x /etc/x /dev/x /dev/null/x /var/x /run/x /mnt/x /proc/x /etc/passwd /usr/bin/true; do
 if (echo x > $f) 2>/dev/null; then echo "wrote $f"; fi; done
for d in /workspace /tmp /dev/shm; do echo x > $d/x && cat $d/x; done
for f in /proc/sys/kernel/hostname /proc/sys/net/ipv4/ip_forward /proc/sys/user/max_user_namespaces /proc/sysrq-trigger /proc/self/oom_score_adj_; do
 if (echo 1 > $f) 2>/dev/null && [ "$(stat -c %t $f)" != 1 ]; then echo "wrote $f"; fi; done; ls /sys 2>&1 | head -1; ls -d /home /root /boot /opt /srv /lost+found 2>/dev/null; true`).ok(t)
	if r.Out != "x\nx\nx\nls: cannot access '/sys': No such file or directory\n" {
		t.Errorf("%q", r.Out)
	}
}

// Every node of /dev works and none besides is there.
func TestDev(t *testing.T) {
	r := sh(t, `ls /dev | tr '\n' ' '; echo
head -c4 /dev/zero | od -An -tx1; head -c4 /dev/urandom | wc -c; head -c4 /dev/random | wc -c; echo x >/dev/null
(echo x >/dev/full) 2>&1 | grep -c "No space"; ls /dev/pts; echo to-stdout >/dev/stdout; echo in | cat /dev/stdin; (: </dev/tty) 2>&1 | grep -c "No such device or address"
mknod n c 1 3 2>&1; mkfifo p && echo fifo; touch /dev/shm/a && echo shm`).ok(t)
	want := "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero \n 00 00 00 00\n4\n4\n1\nptmx\nto-stdout\nin\n1\n" +
		"mknod: n: Operation not permitted\nfifo\nshm\n"
	if r.Out != want {
		t.Errorf("%q\nwant\n%q", r.Out, want)
	}
}

// A masked file is empty, a masked directory has nothing in it.
func TestMasks(t *testing.T) {
	var b strings.Builder
	for _, p := range append(maskedPaths(), "/proc/pressure", "/proc/slabinfo", "/proc/kpageflags", "/proc/timer_list", "/proc/sched_debug") {
		fmt.Fprintf(&b, "%q,", p)
	}
	r := py(t, `
import os
hidden = 0
for p in (`+b.String()+`):
    try:
        if os.path.isdir(p): n = len(os.listdir(p))
        else: n = len(open(p, "rb").read(4096))
    except FileNotFoundError: continue
    except PermissionError: hidden += 1; continue
    hidden += 1
    if n: print(p, n)
print(hidden > 5, len(open("/proc/meminfo").read()) > 0)
`).ok(t)
	if r.Out != "True True\n" {
		t.Errorf("%q", r.Out)
	}
}

// /dev/null is nobody's to change, whatever runs (CVE-2025-31133 and peers that
// chown inherited descriptors).
func TestDevNullIsUntouched(t *testing.T) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	// Something else on the machine may own it wrongly already.
	var before, st syscall.Stat_t
	if err := syscall.Stat("/dev/null", &before); err != nil {
		t.Fatal(err)
	}
	p := NewPolicy("sh", "-c", "chmod 0 /dev/null; chown 1 /dev/null; rm -f /dev/null; cat; echo x > /dev/null && echo ok")
	if r := runOn(t, testHost(t), p, RunOptions{Stdin: null}); r.Out != "ok\n" {
		t.Errorf("%v", r)
	}
	if err := syscall.Stat("/dev/null", &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != before.Uid || st.Gid != before.Gid || st.Mode != before.Mode || st.Rdev != 1<<8|3 {
		t.Errorf("/dev/null is %d:%d %o %x", st.Uid, st.Gid, st.Mode, st.Rdev)
	}
}

// minimalRoot is a directory rootfs with one static program.
func minimalRoot(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/prog"), compileC(t, source), 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; len(d) > 5; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	return dir
}

const hello = `#include <stdio.h>
int main(void){puts("hello");return 0;}`

func TestDirectoryRootfs(t *testing.T) {
	dir := minimalRoot(t, hello)
	in := func(p *Policy) { p.Rootfs.Dir = dir }
	if r := runArgs(t, []string{"prog"}, in).ok(t); r.Out != "hello\n" {
		t.Errorf("%v", r)
	}
	if r := runArgs(t, []string{"/usr/bin/true"}, in); r.Error == nil || r.Error.Code != errdef.CommandNotFound {
		t.Errorf("the host's /usr shows through: %v", r)
	}
}

// Case 15: hostile root file systems are refused or harmless, and what their
// links point to on the host is untouched.
func TestHostileRootfs(t *testing.T) {
	outside := t.TempDir()
	for _, name := range []string{"proc", "dev", "sys"} {
		dir := minimalRoot(t, hello)
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		r := runArgs(t, []string{"prog"}, func(p *Policy) { p.Rootfs.Dir = dir })
		if r.Started || r.Error.Code != errdef.Invalid {
			t.Errorf("%s: %v", name, r)
		}
	}
	// Links where the sandbox's own mounts and files go, or a file in their place.
	for _, name := range []string{"tmp", "run", "mnt", "workspace"} {
		for _, file := range []bool{false, true} {
			dir := minimalRoot(t, hello)
			path := filepath.Join(dir, name)
			var err error
			if file {
				err = os.WriteFile(path, []byte("x"), 0o644)
			} else {
				err = os.Symlink(outside, path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r := runArgs(t, []string{"prog"}, func(p *Policy) { p.Rootfs.Dir = dir }).ok(t); r.Out != "hello\n" {
				t.Errorf("%s: %v", name, r)
			}
		}
	}
	if got := names(t, outside); len(got) != 0 {
		t.Errorf("outside was touched: %v", got)
	}
}

// A bind's target that a link redirects is refused, not followed.
func TestBindTargetBehindALink(t *testing.T) {
	dir := minimalRoot(t, hello)
	if err := os.Symlink("/bin", filepath.Join(dir, "bin/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin/real"), 0o755); err != nil {
		t.Fatal(err)
	}
	src := t.TempDir()
	bind := func(target string) ended {
		return runArgs(t, []string{"prog"}, func(p *Policy) { p.Rootfs.Dir = dir; p.Binds = []Bind{{src, target}} })
	}
	if r := bind("/bin/link"); r.Started {
		t.Errorf("through a link: %v", r)
	}
	if r := bind("/bin/missing"); r.Started {
		t.Errorf("a missing target: %v", r)
	}
	if r := bind("/bin/real").ok(t); r.Out != "hello\n" {
		t.Errorf("control: %v", r)
	}
}

func TestBind(t *testing.T) {
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "f"), []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for d := src; len(d) > 5; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	r := sh(t, `cat /opt/x/f /srv/f; (echo y > /opt/x/f) 2>&1 | grep -c Read-only; (touch /opt/x/new) 2>&1 | grep -c Read-only; ls /opt /srv`,
		func(p *Policy) { p.Binds = []Bind{{src, "/opt/x"}, {filepath.Join(src, "f"), "/srv/f"}} }).ok(t)
	if r.Out != "data\ndata\n1\n1\n/opt:\nx\n\n/srv:\nf\n" {
		t.Errorf("%v", r)
	}
	if r := sh(t, "ls /opt"); r.ExitStatus() == 0 {
		t.Errorf("control: without the bind there is %v", r)
	}
}

// Case 15: a working directory that is no directory of the sandbox's own tree.
func TestCwd(t *testing.T) {
	for _, bad := range []string{"/proc/self/fd/7", "/proc/self/root", "/proc/1/cwd", "/dev/fd/3", "/nonexistent", "/etc/passwd"} {
		r := runArgs(t, []string{"pwd"}, func(p *Policy) { p.Cwd = bad })
		if r.Started || r.Error.Code != errdef.Invalid || !strings.Contains(r.Error.Path+r.Error.Message, "cwd") {
			t.Errorf("%s: %v", bad, r)
		}
	}
	// Links that the rootfs holds lead to magic links and to the host.
	dir := minimalRoot(t, `#include <unistd.h>
#include <stdio.h>
int main(void){char b[4096];puts(getcwd(b,sizeof b));return 0;}`)
	for link, target := range map[string]string{"magic": "/proc/self/fd/3", "root": "/proc/self/root", "exe": "/proc/1/root", "good": "/bin"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		r := runArgs(t, []string{"prog"}, func(p *Policy) { p.Rootfs.Dir = dir; p.Cwd = "/" + link })
		if link == "good" {
			if r.ok(t).Out != "/bin\n" {
				t.Errorf("control: %v", r)
			}
		} else if r.Started {
			t.Errorf("%s: %v", target, r)
		}
	}
}
