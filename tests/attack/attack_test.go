package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/runtime"
)

// TestInit: CVE-2019-5736 and its relatives, and /proc files of one's own.
func TestInit(t *testing.T) {
	table := ""
	// SELinux without a policy, whose only label is "kernel", takes any other.
	if label, _ := os.ReadFile("/proc/self/attr/current"); strings.TrimRight(string(label), "\x00\n") == "kernel" {
		table += "self-attr ok\n"
	} else {
		table += "self-attr EINVAL|EACCES|EPERM|ENOENT\n"
	}
	for _, name := range []string{"kernel-core_pattern", "kernel-modprobe", "kernel-hostname", "kernel-ns_last_pid", "vm-drop_caches", "fs-binfmt_misc-register",
		"net-ipv4-ip_forward", "user-max_user_namespaces", "user-max_inotify_instances", "kernel-shmmax", "fs-mqueue-msg_max"} {
		table += "sysctl-" + name + " EROFS|EACCES|EPERM|ENOENT\n"
	}
	for _, name := range []string{"mem", "exe", "exe-write", "fd", "root", "cwd", "environ", "maps", "task", "oom", "comm", "uid-map"} {
		table += "init-" + name + " ENOENT|EACCES|EPERM\n" // hidepid: there is no /proc/1
	}
	runPy(t, "init.py").ended(t).expect(t, table+`
		init-kill EPERM
		init-stop EPERM
		init-prio EPERM|ESRCH|EACCES
		init-prlimit EPERM|ESRCH|EACCES
		init-affinity EPERM|ESRCH
		init-pidfd EPERM|ESRCH
		self-uid-map EPERM|EACCES
		self-gid-map EPERM|EACCES
		self-setgroups EPERM|EACCES
		self-mem ok
		self-exe-write EROFS|EACCES|ETXTBSY
		self-oom-up ok
		self-oom-down EACCES|EPERM
		self-loginuid EPERM|EACCES|ENOENT|EINVAL
		self-coredump-filter ok
		self-clear-refs ok
		self-ns ok
		self-core EPERM|EINVAL
		sysrq ENOENT|EACCES|EPERM|EROFS
		core-dumped False []
		pid own`)
}

func TestFiles(t *testing.T) {
	runPy(t, "files.py").ended(t).expect(t, `
		setuid-there yes
		setuid-gained none
		own-suid-workspace 1000
		own-suid-tmp 1000
		shm-exec EACCES
		memfd-exec ok
		hardlink-usr EXDEV|EPERM
		hardlink-across EXDEV
		symlink ENOENT
		dotdot ENOENT
		proc-root ENOENT
		host-home ENOENT
		cgroup ENOENT
		dev-mem ENOENT
		dev-vda ENOENT
		dev-kvm ENOENT
		dev-fuse ENOENT
		dev-tty ENXIO
		docker-sock ENOENT
		rename-root EBUSY|EROFS|EXDEV
		rmdir-workspace EBUSY|EROFS
		setxattr-trusted EPERM
		setxattr-caps EPERM
		control-setxattr ok|ENOTSUP
		control-read ok`)
}

// TestStdio: what a program can do with the run's own pipes hurts nobody.
func TestStdio(t *testing.T) {
	a := runPy(t, "stdio.py").ended(t)
	a.expect(t, `
		reopen-out-read ok|EACCES
		reopen-out-write ok
		write-stdin ok|EBADF
		chown-stdin EPERM|EROFS|EINVAL
		chmod-stdin EPERM|EROFS
		truncate-out EINVAL
		seek-out ESPIPE
		nonblock-out ok
		pipe-size EPERM
		owner-host EPERM|ESRCH|ok
		sigio ok
		rights-inside 2
		rights-peer own
		end here`)
}

// TestFloods: each kind of kernel object ends in an errno, by time, or in the
// sandbox's own memory limit; afterwards a fresh sandbox has its full share.
func TestFloods(t *testing.T) {
	for kind, want := range map[string]string{
		"ptys": "ENOSPC|EMFILE|EIO", "shm": "ENOSPC|ENOMEM", "sem": "ENOSPC|ENOMEM", "msg": "ENOSPC|EAGAIN|ENOMEM", "mq": "EMFILE|ENOSPC",
		"sockets": "EMFILE", "sockbuf": "EMFILE|ENOBUFS|ENOMEM", "pipes": "EMFILE|ENFILE", "timers": "EAGAIN", "sigqueue": "EAGAIN",
		"mlock": "ENOMEM|EPERM|EAGAIN", "maps": "ENOMEM|EAGAIN", "threads": "RuntimeError|EAGAIN", "watches": "ENOSPC", "epoll": "EMFILE",
		"locks": "bounded-by-time|ENOLCK", "dentries": "bounded-by-time", "deep": "ENOSPC|ENAMETOOLONG", "keys": "EPERM",
		"xattrs":   "ENOSPC|ENOMEM|ENOTSUP", // tmpfs has them since Linux 6.6
		"requests": "ENOSPC", "request-names": "ENOSPC",
	} {
		a := func() attempt {
			data, err := os.ReadFile("programs/floods.py")
			if err != nil {
				t.Fatal(err)
			}
			return run(t, []string{"/usr/bin/python3", "/workspace/f.py", kind}, withEcho(t), func(p *runtime.Policy) {
				p.Files = []runtime.File{{Data: data, Target: "f.py"}}
				p.Limits.WorkspaceInodes = 8192
				p.Limits.Timeout = 30 * time.Second
			})
		}()
		if a.Reason == runtime.ReasonOOM { // its own memory limit ended it: bounded
			continue
		}
		late := a.Reason == runtime.ReasonTimeout || strings.Contains(a.out, kind+" bounded-by-time")
		if p := a.Usage.MemoryPeak; late && p != nil && *p > runtime.DefaultMemory/10*9 {
			continue // at its memory limit it only reclaimed pages any more, until its time was over
		}
		if kind == "threads" && a.Reason == runtime.ReasonPidsLimit {
			a.Reason = runtime.ReasonExited
		}
		a.ended(t).expect(t, kind+" "+want+"\nend here")
		if p := a.Usage.MemoryPeak; p != nil && *p > runtime.DefaultMemory {
			t.Errorf("%s: peak %d", kind, *p)
		}
	}
	if a := run(t, []string{"/usr/bin/python3", "-c", `
import os, ctypes
libc = ctypes.CDLL(None)
print(len([os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) for _ in range(4)]), libc.shmget(0, 4096, 0o1600) >= 0, libc.inotify_init1(0) > 0)`}); a.out != "4 True True\n" {
		t.Errorf("afterwards: %v", a)
	}
}

// TestTree: hostile content of the workspace costs the host no time and fools
// no fetch.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	start := time.Now()
	a := runPy(t, "tree.py", func(p *runtime.Policy) {
		p.Limits.WorkspaceInodes = 16384
		p.Outputs = []runtime.Output{{Path: "good", Dest: filepath.Join(dir, "good")}, {Path: "sparse", Dest: filepath.Join(dir, "sparse")},
			{Path: "fifo"}, {Path: "locked/in"}, {Path: "swap/f"}}
	})
	got := map[string]string{}
	for _, f := range a.Files {
		got[f.Path] = string(f.Data)
	}
	if a.Reason != runtime.ReasonExited || *a.ExitCode != 0 || a.Error == nil || len(got) > 4 || got["/workspace/swap/f"] != "mine" {
		t.Errorf("%v %v", a, got)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "good")); string(b) != "good" {
		t.Errorf("%q", b)
	}
	if _, err := os.Stat(filepath.Join(dir, "sparse")); err == nil {
		t.Error("32 TiB were fetched")
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestBridgeDirectories(t *testing.T) {
	var b strings.Builder
	for _, d := range []string{"root", "req", "resp", "sdk"} {
		for _, v := range []string{"rename", "rename-tmp", "rmdir", "chmod", "chown"} {
			b.WriteString(d + "-" + v + " EBUSY|EROFS|EXDEV|EPERM|EACCES|EINVAL|ENOTEMPTY\n")
		}
	}
	runPy(t, "bridge.py", withEcho(t)).ended(t).expect(t, b.String()+`
		replace EBUSY|EROFS|EXDEV|ENOTEMPTY
		list-req EACCES
		list-resp EACCES
		forge EROFS
		unlink-bell EROFS|EACCES
		bell-write EACCES|EROFS|ENOENT
		exec-req EACCES
		tools EROFS|EACCES
		link-in EXDEV
		watch-resp ok
		call right`)
}

// TestSignalFloodEndsWithTheProgram: a storm of signals at everything within
// reach keeps neither the program's end nor the time limit from working.
func TestSignalFlood(t *testing.T) {
	a := runC(t, "signals.c", func(p *runtime.Policy) { p.Limits.Timeout = 2 * time.Second })
	if a.Reason != runtime.ReasonTimeout || a.Usage.Wall > 10*time.Second {
		t.Errorf("%v", a)
	}
	run(t, []string{"true"}).ended(t)
}
