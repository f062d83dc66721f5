package runtime

import (
	"strings"
	"testing"
	"time"
)

// real is room for programs that are no toys.
func real(p *Policy) {
	p.Limits.Timeout = 2 * time.Minute
	p.Limits.SetMemory(1 << 30)
}

// Case 4, 5: threads, loops of events, pools of processes.
func TestPython(t *testing.T) {
	for name, c := range map[string]struct{ program, want string }{
		"threads": {`
import threading
n = [0]; lock = threading.Lock()
def f():
    with lock: n[0] += 1
ts = [threading.Thread(target=f) for _ in range(62)]
[x.start() for x in ts]; [x.join() for x in ts]; print(n[0])`, "62\n"},
		"asyncio from a thread": {`
import asyncio, threading
async def f(): await asyncio.sleep(0.01); return 42
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
print(asyncio.run_coroutine_threadsafe(f(), loop).result(10))`, "42\n"},
		"asyncio subprocess": {`
import asyncio
async def f():
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    return (await p.communicate(b"hi"))[0]
print(asyncio.run(f()))`, "b'hi'\n"},
		"asyncio server": {`
import asyncio
async def serve(r, w): w.write(await r.readline()); await w.drain(); w.close()
async def f():
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
    w.write(b"line\n"); return await r.readline()
print(asyncio.run(f()))`, "b'line\\n'\n"},
		"multiprocessing": {`
import multiprocessing as m
def f(x): return x * x
if __name__ == "__main__":
    with m.get_context("fork").Pool(4) as p: print(sum(p.map(f, range(100))))
    q = m.Queue(); m.Process(target=q.put, args=(7,)).start(); print(q.get())
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 9; print(s.buf[0]); s.close(); s.unlink()`, "328350\n7\n9\n"},
		"subprocess": {`
import subprocess
print(subprocess.run("echo a | tr a b; exit 3", shell=True, capture_output=True, text=True))`,
			"CompletedProcess(args='echo a | tr a b; exit 3', returncode=3, stdout='b\\n', stderr='')\n"},
		"sqlite": {`
import sqlite3
c = sqlite3.connect("db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(a)")
c.executemany("insert into t values(?)", [(i,) for i in range(1000)]); c.commit()
print(sqlite3.connect("db").execute("select sum(a) from t").fetchone())`, "(499500,)\n"},
		"files": {`
import tempfile, shutil, os, mmap, fcntl, pathlib
with tempfile.NamedTemporaryFile() as f: f.write(b"x"); f.flush(); os.fsync(f.fileno())
d = tempfile.mkdtemp(); pathlib.Path(d, "a").write_text("a"); shutil.copytree(d, "copy"); shutil.rmtree(d)
f = open("m", "w+b"); f.truncate(4096); mm = mmap.mmap(f.fileno(), 4096); mm[0:2] = b"hi"; mm.flush()
fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)
print(open("m", "rb").read(2), os.listdir("copy"), shutil.disk_usage("/workspace").total >> 20)`, "b'hi' ['a'] 64\n"},
		"signals and timers": {`
import signal, time
signal.signal(signal.SIGALRM, lambda *a: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
import select, os
e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b"x"); print(e.poll(1)[0][1])
print(os.sched_getaffinity(0) != set(), time.clock_gettime(time.CLOCK_MONOTONIC) > 0, len(os.getrandom(8)), os.memfd_create("m") > 0)`, "alarm\n1\nTrue True 8 True\n"},
		"modules": {`
import json, ssl, hashlib, zlib, lzma, bz2, decimal, uuid, ctypes, http.server, urllib.request, concurrent.futures, locale, pwd
print(pwd.getpwuid(1000).pw_name, uuid.uuid1().version, ssl.create_default_context() is not None)`, "sandbox 1 True\n"},
	} {
		if r := py(t, c.program, real); r.Out != c.want || r.Reason != ReasonExited {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// Case 8: with fewer pids than a large machine has cores.
func TestNumpy(t *testing.T) {
	if r := py(t, "import numpy; print(numpy.ones((300, 300)).dot(numpy.ones((300, 300))).sum())", real, pids(32)).ok(t); r.Out != "27000000.0\n" {
		t.Errorf("%v", r)
	}
}

// Case 6: io_uring is refused with an errno and Node does without.
func TestNode(t *testing.T) {
	node := func(program string) ended { return runArgs(t, []string{"node", "-e", program}, real) }
	if r := node("1").ok(t); r.Out != "" {
		t.Errorf("%v", r)
	}
	if r := node(`
const {Worker, isMainThread} = require("worker_threads"), cp = require("child_process"), fs = require("fs"), net = require("net");
let n = 0;
for (let i = 0; i < 4; i++) new Worker("require('worker_threads').parentPort.postMessage(21*2)", {eval: true}).on("message", v => {
  if (v === 42 && ++n === 4) {
    console.log("workers", n, cp.execSync("echo child").toString().trim());
    fs.writeFileSync("f", "x".repeat(1e6)); console.log(fs.readFileSync("f").length);
    const s = net.createServer(c => c.end("hello")).listen(0, "127.0.0.1", () =>
      net.connect(s.address().port, "127.0.0.1").on("data", d => { console.log(d.toString()); s.close(); }));
  }
});`).ok(t); r.Out != "workers 4 child\n1000000\nhello\n" {
		t.Errorf("%v", r)
	}
}

func TestGit(t *testing.T) {
	r := sh(t, `set -e; git init -q r; cd r; git config user.email a@b; git config user.name n
for i in 1 2 3; do echo $i > f$i; git add .; git commit -qm "c$i"; done; git log --oneline | wc -l
git checkout -qb x HEAD~1; echo y > y; git add y; git commit -qm y; git merge -q -m m master 2>/dev/null || git merge -q -m m main; git gc -q; git clone -q . ../c; ls ../c | tr '\n' ' '; git status --short`, real).ok(t)
	if r.Out != "3\nf1 f2 f3 y " {
		t.Errorf("%v", r)
	}
}

func TestCompilers(t *testing.T) {
	r := sh(t, `set -e
cat > a.c <<'E'
#include <stdio.h>
#include <pthread.h>
static void *f(void *p) { *(int *)p = 42; return p; }
int main(void) { pthread_t t; int v = 0; pthread_create(&t, 0, f, &v); pthread_join(t, 0); printf("%d\n", v); return 0; }
E
cat > Makefile <<'E'
all: a b
a: a.c
	gcc -O2 -pthread -o $@ $<
b: a.c
	gcc -O0 -static -pthread -o $@ $<
E
make -s -j4; ./a; ./b
echo 'int main(){return 7;}' | g++ -x c++ - -o c; ./c || echo $?`, real).ok(t)
	if r.Out != "42\n42\n7\n" {
		t.Errorf("%v", r)
	}
}

func TestTools(t *testing.T) {
	r := sh(t, `set -e
mkdir d; for i in $(seq 50); do echo $i > d/$i; done; ln -s 1 d/l; ln d/1 d/h
tar czf d.tgz d; mkdir o; tar xzf d.tgz -C o; diff -r d o/d && ls o/d | wc -l
perl -e 'use POSIX; use File::Temp; my $p = fork; exit 3 unless $p; waitpid $p, 0; print $? >> 8, "\n"'
perl -MDigest::SHA=sha1_hex -e 'print sha1_hex("x"), "\n"' | cut -c1-6
find d -name '1*' | sort | head -2 | xargs -n1 basename | tr '\n' ' '; awk 'BEGIN{print 1+1}'; seq 100000 | sort -rn | head -1; echo abc | sed s/b/B/
date -u -d @0 +%Y; cp -a d e; rsync --version >/dev/null 2>&1 || true; zip -v >/dev/null 2>&1 || true; df -h /workspace | wc -l; nproc >/dev/null; ps aux | wc -l; env | wc -l >/dev/null`, real).ok(t)
	want := "52\n3\n11f6ad\n1 10 2\n100000\naBc\n1970\n2\n"
	if !strings.HasPrefix(r.Out, want) {
		t.Errorf("%q", r.Out)
	}
}

func TestBashJobControl(t *testing.T) {
	r := sh(t, `set -m; sleep 1000 & jobs | wc -l; kill -STOP %1; sleep 0.1; jobs; kill -CONT %1; kill %1; wait %1; echo $?
trap 'echo usr' USR1; kill -USR1 $$; coproc cat; echo x >&${COPROC[1]}; read -u ${COPROC[0]} y; echo $y; cat <(echo sub); echo "a b" | while read a b; do echo $b; done`).ok(t)
	for _, want := range []string{"1\n", "Stopped", "143\n", "usr\nx\nsub\nb\n"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("no %q in %q", want, r.Out)
		}
	}
}

// Case 25: processes that each write a program and execute it at once.
func TestWriteAndExecute(t *testing.T) {
	r := py(t, `
import os, subprocess
def one(i):
    p = f"/workspace/x{i}"
    fd = os.open(p, os.O_CREAT | os.O_WRONLY, 0o755); os.write(fd, b"#!/bin/sh\nexit 0\n"); os.close(fd)
    os.execv(p, [p])
pids = []
for i in range(50):
    pid = os.fork()
    if pid == 0:
        try: one(i)
        except OSError as e: os._exit(e.errno)
    pids.append(pid)
print({os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids})`, real).ok(t)
	if r.Out != "{0}\n" {
		t.Errorf("%v", r)
	}
}

// A pseudo-terminal of the sandbox's own, and no controlling terminal.
func TestPseudoTerminals(t *testing.T) {
	r := py(t, `
import pty, os
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "tty; test -t 0 && echo terminal"])
out = b""
try:
    while True: out += os.read(fd, 1000)
except OSError: pass
print(out, os.waitpid(pid, 0)[1])
try: open("/dev/tty"); print("tty")
except OSError as e: print(e.errno)`).ok(t)
	if r.Out != "b'/dev/pts/0\\r\\nterminal\\r\\n' 0\n6\n" {
		t.Errorf("%v", r)
	}
}

// The environment's stub paths, threads and caches suit programs of any kind.
func TestThreadVariables(t *testing.T) {
	r := sh(t, "echo $OMP_NUM_THREADS $GOMAXPROCS", func(p *Policy) { p.Limits.CPUs = 2.5 }).ok(t)
	if r.Out != "3 3\n" {
		t.Errorf("%v", r)
	}
}
