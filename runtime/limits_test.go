package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

// Case 9: a child past the memory limit is gone, and the result says oom though
// the shell exits 0.
func TestMemoryLimit(t *testing.T) {
	r := sh(t, `/usr/bin/python3 -c 'x = bytearray(400 << 20)'; echo "ok $?"`)
	if r.Reason != ReasonOOM || r.OOMKills == 0 || r.ExitCode == nil || *r.ExitCode != 0 || !strings.HasPrefix(r.Out, "ok ") {
		t.Errorf("%v", r)
	}
	if r := py(t, "x = bytearray(64 << 20); print(len(x))").ok(t); r.OOMKills != 0 || r.Out != "67108864\n" {
		t.Errorf("control: %v", r)
	}
}

func TestMemoryOfTheMainProgram(t *testing.T) {
	r := py(t, "x = bytearray(400 << 20)")
	if r.Reason != ReasonOOM || r.Signal == nil || *r.Signal != 9 {
		t.Errorf("%v", r)
	}
	if p := r.Usage.MemoryPeak; p == nil || *p < 100<<20 || *p > DefaultMemory {
		t.Errorf("peak %v", p)
	}
}

func TestCPULimit(t *testing.T) {
	burn := func(cpus float64) ended {
		return py(t, `
import time
end = time.monotonic() + 1
while time.monotonic() < end: pass`, func(p *Policy) { p.Limits.CPUs = cpus }).ok(t)
	}
	r := burn(0.2)
	if share := r.Usage.CPU.Seconds() / r.Usage.Wall.Seconds(); share > 0.4 {
		t.Errorf("%v of CPU in %v", r.Usage.CPU, r.Usage.Wall)
	}
	if r.Usage.CPU <= 0 {
		t.Error("CPU time was not counted")
	}
}

// The limit counts the program's own processes: all of them fit, one more fails.
func TestPidsLimit(t *testing.T) {
	const fork = `
import os, sys
n = 0
try:
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0: os.read(0, 1) if False else __import__("signal").pause()
        n += 1
except OSError as e: print(e.errno)
print(n); sys.stdout.flush(); os.kill(0, 9) if False else os._exit(0)`
	run := func(n string) ended {
		return runArgs(t, []string{"/usr/bin/python3", "-c", fork, n}, pids(10))
	}
	if r := run("9").ok(t); r.Out != "9\n" || r.PidsDenied != 0 {
		t.Errorf("%v", r)
	}
	if r := run("10"); r.Out != "11\n9\n" || r.PidsDenied != 1 || r.Reason != ReasonPidsLimit || *r.ExitCode != 0 {
		t.Errorf("%v", r)
	}
}

// Case 18.
func TestForkBomb(t *testing.T) {
	for name, r := range map[string]ended{
		// The main program waits without a process of its own.
		"shell": sh(t, "mkfifo p; exec 3<>p; :(){ :|:& };:; read -t 5 -u 3; true", timeout(60*time.Second)),
		"C": runC(t, `#include <unistd.h>
int main(void){for(;;)fork();}`, nil, timeout(60*time.Second)),
	} {
		if r.Reason != ReasonPidsLimit || r.PidsDenied == 0 {
			t.Errorf("%s: %v", name, r)
		}
		if r.Usage.Wall > 30*time.Second {
			t.Errorf("%s took %v", name, r.Usage.Wall)
		}
	}
	sh(t, "echo after").ok(t)
}

// Case 10, for every file system that the program can write to: bytes and
// inodes end in ENOSPC, extended attributes included, and never in an OOM kill.
func TestTmpfsLimits(t *testing.T) {
	r := py(t, `
import os, errno
def fill(name, step):
    n = 0
    try:
        while n < 3_000_000: step(n); n += 1
    except OSError as e: print(name, errno.errorcode[e.errno]); return n
    print(name, "endless")
for d in ("/workspace", "/tmp", "/dev/shm"):
    f = open(d + "/big", "wb", buffering=0)
    chunk = bytes(1 << 20)
    n = fill(d + " bytes", lambda i: f.write(chunk)); f.close()
    size = os.stat(d + "/big").st_blocks * 512
    print(size >> 20)
    os.unlink(d + "/big")
    os.mkdir(d + "/many")
    n = fill(d + " inodes", lambda i: os.close(os.open(f"{d}/many/{i}", os.O_CREAT | os.O_WRONLY)))
    print(n > 900)
    for i in range(n): os.unlink(f"{d}/many/{i}")
    n = fill(d + " dirs", lambda i: os.mkdir(f"{d}/many/{i}"))
    for i in range(n): os.rmdir(f"{d}/many/{i}")
    n = fill(d + " links", lambda i: os.symlink("x" * 4000, f"{d}/many/{i}"))
    for i in range(n): os.unlink(f"{d}/many/{i}")
`, timeout(120*time.Second))
	r.ok(t)
	for _, want := range []string{"/workspace bytes ENOSPC\n", "\n/workspace inodes ENOSPC\n", "\n/tmp bytes ENOSPC\n", "\n/tmp inodes ENOSPC\n",
		"\n/dev/shm bytes ENOSPC\n", "\n/dev/shm inodes ENOSPC\n", "/workspace dirs ENOSPC\n", "/tmp links ENOSPC\n", "/dev/shm links ENOSPC\n"} {
		if !strings.Contains("\n"+r.Out, want) {
			t.Errorf("no %q in %q", want, r.Out)
		}
	}
	if strings.Contains(r.Out, "endless") || strings.Contains(r.Out, "False") || r.OOMKills != 0 {
		t.Errorf("%v", r)
	}
	for _, size := range []string{"ENOSPC\n64\n", "ENOSPC\n32\n", "ENOSPC\n16\n"} {
		if !strings.Contains(r.Out, size) {
			t.Errorf("no %q in %q", size, r.Out)
		}
	}
}

// Extended attributes live in kernel memory beside the file's pages: they are
// bounded too.
func TestXattrsAreBounded(t *testing.T) {
	r := py(t, `
import os, errno
total = 0
for d in ("/workspace", "/tmp", "/dev/shm"):
    try:
        for f in range(4000):
            p = f"{d}/x{f}"; open(p, "w").close()
            for i in range(64):
                os.setxattr(p, f"user.{i}", bytes(60000)); total += 60000
    except OSError as e: print(d, errno.errorcode[e.errno])
print(total >> 20)
`, timeout(60*time.Second))
	if r.Reason != ReasonExited && r.Reason != ReasonOOM {
		t.Errorf("%v", r)
	}
	if p := r.Usage.MemoryPeak; p == nil || *p > DefaultMemory {
		t.Errorf("peak %v", p)
	}
}

func TestOpenFilesLimit(t *testing.T) {
	r := py(t, `
import os, resource
n = 3
try:
    while True: os.dup(0); n += 1
except OSError as e: print(n, e.errno)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
try: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); print("raised")
except ValueError as e: print("no")
resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90)); print("lowered")
`, func(p *Policy) { p.Limits.OpenFiles = 100 }).ok(t)
	if r.Out != "100 24\n(100, 100)\nno\nlowered\n" {
		t.Errorf("%v", r)
	}
}

// Threats, Isolation 7: what the kernel counts for a user is counted for the
// sandbox, not for the host's root.
func TestInotifyAndUserNamespaces(t *testing.T) {
	const inotify = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while libc.inotify_init1(0) >= 0 and n < 1000: n += 1
print(n, ctypes.get_errno())
print(libc.unshare(0x10000000), ctypes.get_errno())
print(open("/proc/sys/user/max_user_namespaces").read().strip(), open("/proc/sys/user/max_inotify_watches").read().strip())
`
	for range 10 { // 160 in all, more than the 128 that one user may have
		if r := py(t, inotify).ok(t); r.Out != "16 24\n-1 1\n0 4096\n" {
			t.Errorf("%v", r)
		}
	}
	var held []*held
	for range 9 {
		held = append(held, hold(t, testHost(t), NewPolicy("/usr/bin/python3", "-uc", strings.Replace(inotify, "import ctypes, os", "import ctypes, os, sys", 1)+"\nprint('ready')\nsys.stdin.read()")))
	}
	for _, x := range held {
		if !strings.HasPrefix(x.out.String(), "16 24\n") {
			t.Errorf("beside others: %q", x.out.String())
		}
	}
}

func TestRlimitsCannotBeRaised(t *testing.T) {
	r := py(t, `
import resource as r
for name in ("CORE", "NOFILE", "MEMLOCK", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO"):
    res = getattr(r, "RLIMIT_" + name)
    soft, hard = r.getrlimit(res)
    try: r.setrlimit(res, (hard + 1, hard + 1)); print(name, "raised")
    except (ValueError, OSError): pass
    print(name, soft, hard)
`).ok(t)
	if strings.Contains(r.Out, "raised") || !strings.Contains(r.Out, "CORE 0 0\n") || strings.Contains(r.Out, "-1") {
		t.Errorf("%v", r)
	}
}

// A limit too small for the set-up is named as that.
func TestTooLittleMemoryForTheSetUp(t *testing.T) {
	r := runArgs(t, []string{"true"}, memory(MinMemory))
	if r.Started && r.Reason != ReasonExited && r.Reason != ReasonOOM || !r.Started && !errdef.Is(&errdef.Error{Code: r.Error.Code}, errdef.Setup) {
		t.Errorf("%v", r)
	}
}
