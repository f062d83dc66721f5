package runtime

import (
	"os"
	"strings"
	"testing"
)

// Threats, Isolation 6: every file below /proc is read to its end (or its first
// megabyte) and searched for a word from the host's environment, for one from
// its command line and for its paths.
func TestHostIsNotInProc(t *testing.T) {
	const canary = "SBXRUN-CANARY-7d1e"
	os.Setenv("SBXRUN_CANARY", canary) // before the launcher of an own host starts
	defer os.Unsetenv("SBXRUN_CANARY")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const program = `
import os, sys
needles = [a.encode() for a in sys.argv[1:]]
seen = files = 0
for dir, dirs, names in os.walk("/proc", followlinks=False):
    for n in names + dirs:
        path = os.path.join(dir, n)
        try: target = os.readlink(path).encode()
        except OSError: target = b""
        data = b""
        if not os.path.islink(path) and not os.path.isdir(path) and n not in ("kmsg", "clear_refs", "mem", "pagemap"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                data = os.read(fd, 1 << 20); os.close(fd); files += 1
            except OSError: pass
        for s in needles:
            if s in data + target:
                if path.split("/")[2] in (str(os.getpid()), "self", "thread-self"): seen += 1
                else: print("FOUND", path, s)
print(files > 200, seen > 0)
`
	h := ownHost(t)
	p := NewPolicy("/usr/bin/python3", "-c", program, canary, self, "sbxrun-runtime")
	if r := runOn(t, h, p, RunOptions{}).ok(t); r.Out != "True True\n" { // it finds its own arguments: the search works
		t.Errorf("%v", r)
	}
}

func TestInitIsOpaque(t *testing.T) {
	r := py(t, `
import os
def tell(name, f):
    try: print(name, f())
    except OSError as e: print(name, "errno", e.errno)
for f in ("environ", "maps", "mem", "cmdline", "stack", "syscall", "auxv", "io"):
    tell(f, lambda: open("/proc/1/" + f, "rb").read(64))
for l in ("exe", "cwd", "root", "fd/3", "ns/net"): tell(l, lambda: os.readlink("/proc/1/" + l))
for mode in (os.O_WRONLY, os.O_RDWR): tell("open", lambda: os.open("/proc/1/exe", mode))
tell("own", lambda: os.readlink("/proc/self/exe") != "")
print(sorted(d for d in os.listdir("/proc") if d.isdigit()) == [str(os.getpid())], os.getpid() > 1)
`).ok(t)
	for _, line := range strings.Split(strings.TrimSpace(r.Out), "\n") {
		name, v, _ := strings.Cut(line, " ")
		switch {
		case name == "own" || name == "True":
			if v != "True" {
				t.Errorf("control %s: %s", name, v)
			}
		case !strings.HasPrefix(v, "errno "):
			t.Errorf("%s: %s", name, v)
		}
	}
}

// The host's processes are not there, and PID 1 cannot be hurt by its child.
func TestSignalsToInit(t *testing.T) {
	r := py(t, `
import os, signal
ok = 0
for s in range(1, 65):
    try: os.kill(1, s); ok += 1
    except OSError as e: assert e.errno == 1, e
print(ok)
for s in range(1, 65):
    for _ in range(500):
        try: os.kill(1, s)
        except OSError: pass
signal.raise_signal(signal.SIGCHLD)
print("alive")
`).ok(t)
	if !strings.HasSuffix(r.Out, "alive\n") {
		t.Errorf("%v", r)
	}
}
