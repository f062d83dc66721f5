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

func TestHostileFiles(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{})
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.req), "host-secret"), []byte(`{"tool":"echo","args":{"v":"secret"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAttacker(t, r)
	a.control(r, "first")
	good := `{"tool":"echo","args":{"v":1}}`
	for i, c := range []struct{ name, attack string }{
		{"fifo", `os.mkfifo("req/req_%s.json")`},
		{"fifo moved in", `os.mkfifo("req/f"); os.rename("req/f", "req/req_%s.json")`},
		{"socket", `s = socket.socket(socket.AF_UNIX); s.bind("req/req_%s.json")`},
		{"directory", `os.mkdir("req/req_%s.json")`},
		{"symlink to a secret", `os.symlink("../host-secret", "req/req_%s.json")`},
		{"absolute symlink", `os.symlink("/etc/passwd", "req/req_%s.json")`},
		{"dangling symlink", `os.symlink("nowhere", "req/req_%s.json")`},
		{"symlink to a good request", `put("target%[1]s", '` + good + `'); os.symlink("req_target%[1]s.json", "req/req_%[1]s.json")`},
		{"magic link", `fd = os.open("/etc/passwd", os.O_RDONLY); os.symlink("/proc/%%d/fd/%%d" %% (os.getpid(), fd), "req/req_%s.json")`},
		{"hard link", `put("h%[1]s", '` + good + `'); os.link("req/req_h%[1]s.json", "req/l"); os.rename("req/l", "req/req_%[1]s.json")`},
		{"empty", `put("%s", "")`},
		{"sparse 1 TiB", `open("req/s", "wb").truncate(1 << 40); os.rename("req/s", "req/req_%s.json")`},
		{"sparse within the limit", `open("req/s", "wb").truncate(1 << 20); os.rename("req/s", "req/req_%s.json")`},
		{"write lease", `put("keep%[1]s", "x"); f = open("req/req_keep%[1]s.json"); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK); os.rename("req/req_keep%[1]s.json", "req/req_%[1]s.json")`},
	} {
		id := fmt.Sprintf("bad%d", i)
		attack := c.attack
		if strings.Contains(attack, "%s") || strings.Contains(attack, "%[1]s") {
			attack = fmt.Sprintf(attack, id)
		}
		begin := time.Now()
		a.do("%s", attack)
		got := r.waitReply(id, 2*time.Second)
		if got.Code != BadRequest && got.Code != TooLarge || got.Result != nil {
			t.Errorf("%s: got %+v", c.name, got)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("%s: took %s", c.name, took)
		}
		a.control(r, fmt.Sprintf("ok%d", i))
	}
	// Files of another uid: the host's own, as if something had been moved in.
	r.put("host", good)
	if got := r.waitReply("host", time.Second); got.Code != BadRequest {
		t.Errorf("another uid: got %+v", got)
	}
	for _, rec := range r.recorded() {
		if strings.Contains(rec.Detail+rec.Tool, "secret") {
			t.Errorf("leak: %+v", rec)
		}
	}
}

func TestHostileNames(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{})
	a := newAttacker(t, r)
	a.do(`
for i, n in enumerate([b"req_a\nb.json", b"req_\x1b[31m.json", b"req_\xff.json", b"req_.json", b"req_" + b"a" * 65 + b".json", b"x" * 255,
    b"req_a.json.json", b"Req_a.json", b"req_a.JSON", b"req_a b.json", b"req_a.json ", b"..json", b"req_a\xcc\x81.json", b"req_a"]):
    with open(b"req/t", "wb") as f: f.write(b'{"tool":"echo","args":{"v":1}}')
    os.rename(b"req/t", b"req/" + n)`)
	a.control(r, "ok")
	a.control(r, strings.Repeat("a", 64))
	time.Sleep(2 * sweepEvery)
	if st := r.srv.Stats(); st.Noise < 14 || st.Noise > 15 || st.Calls[""] != nil || st.Calls["echo"][OK] != 2 {
		t.Errorf("stats %+v", st)
	}
}

func TestHostileDirectories(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, view := mountRig(t, Config{})
	a := newAttacker(t, r)
	a.do("put('a', '{\"tool\":\"echo\",\"args\":{\"v\":1}}')")
	r.waitReply("a", time.Second)
	for attack, want := range map[string]string{
		`print(err(os.listdir, "req"))`:                                    "EACCES",
		`print(err(os.listdir, "view/resp"))`:                              "EACCES",
		`print(err(open, "view/resp/resp_b.json", "w"))`:                   "EROFS EACCES",
		`print(err(os.mkdir, "view/resp/resp_b.json"))`:                    "EROFS EACCES",
		`print(err(os.unlink, "view/resp/resp_a.json"))`:                   "EROFS EACCES",
		`print(err(os.rename, "view/resp/resp_a.json", "view/resp/x"))`:    "EROFS EACCES",
		`print(err(open, "view/resp/resp_a.json", "r+"))`:                  "EROFS EACCES",
		`print(err(open, "view/resp/bell_0", "w"))`:                        "EROFS EACCES",
		`print(err(os.rmdir, "req"))`:                                      "EBUSY EACCES",
		`print(err(os.rename, "req", "req2"))`:                             "EBUSY EACCES",
		`print(err(os.link, "view/resp/resp_a.json", "req/req_x.json"))`:   "EXDEV EPERM",
		`print(err(os.rename, "view/resp/resp_a.json", "req/req_x.json"))`: "EXDEV EROFS",
		`print(open("view/resp/resp_a.json").read()[:6])`:                  `{"v":1`, // positive control
		`fd = os.open("view/resp/bell_0", os.O_RDONLY|os.O_NONBLOCK); fcntl.flock(fd, fcntl.LOCK_EX|fcntl.LOCK_NB); print("locked")`: "locked",
		`print(os.stat("view/resp/resp_a.done").st_size)`: "0",
	} {
		if got := a.do("%s", attack); got == "" || !strings.Contains(want, got) {
			t.Errorf("%s: got %s, want one of %s", attack, got, want)
		}
	}
	_ = view
	a.control(r, "ok")
}

// The reply file system is full of what nobody fetched: the oldest go, the reply
// is complete or absent, the marker is only there after it.
func TestHostileFullDisks(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{Limits: Limits{Reply: 300 << 10}})
	a := newAttacker(t, r)
	for i := range 100 { // 2 inodes each of 128; 64 KiB each of 1 MiB
		a.do("put('f%d', '{\"tool\":\"echo\",\"args\":{\"v\":\"' + 'x' * 65000 + '\"}}'); os.rename('req/req_f%d.json', 'req/gone')", i, i)
		r.waitReply(fmt.Sprintf("f%d", i), 2*time.Second)
	}
	a.do("put('big', '{\"tool\":\"echo\",\"args\":{\"v\":\"' + 'y' * 900000 + '\"}}')")
	if got := r.waitReply("big", 2*time.Second); got.Spill == nil {
		t.Errorf("big: %+v", got)
	}
	names, err := os.ReadDir(r.res)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), tempPrefix) {
			t.Errorf("a temporary file is left: %s", n.Name())
		}
		if id, ok := strings.CutSuffix(n.Name(), ".done"); ok {
			if st, err := os.Stat(filepath.Join(r.res, id+".json")); err != nil || st.Size() == 0 {
				t.Errorf("a marker without a reply: %s", id)
			}
		}
	}
	// The host itself has taken all the space that is left and cannot be helped.
	r.srv.mu.Lock()
	for r.srv.replies.Len() > 0 {
		e := r.srv.replies.Front().Value.(*entry)
		r.srv.forget(e, evicted)
		r.srv.remove(e)
	}
	r.srv.mu.Unlock()
	fill := filepath.Join(r.res, "host-filler")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if _, err := f.Write(buf); err != nil {
			break
		}
	}
	_ = f.Close()
	a.do("put('nofit', '{\"tool\":\"echo\",\"args\":{\"v\":1}}')")
	eventually(t, "the unwritable reply is counted", func() bool { return r.srv.Stats().Calls["echo"][Internal] == 1 })
	if r.has("nofit") {
		t.Error("a marker without a body")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	a.control(r, "ok")
	// The program fills its own directory: only its own requests fail.
	got := a.do(`
n = 0
while True:
    try: open("req/junk%%d" %% n, "w").close()
    except OSError as e: print(errno.errorcode[e.errno]); break
    n += 1
for i in range(n): os.unlink("req/junk%%d" %% i)`)
	if got != "ENOSPC" {
		t.Errorf("inodes are not capped: %s", got)
	}
	a.control(r, "ok2")
}

// Events are lost in an overflow of the queue; the sweep finds the request.
func TestHostileEventFlood(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{Limits: Limits{Flood: 100000}})
	other := newRigOn(t, r.w, t.TempDir(), Config{MaxCalls: 100}, echoTool())
	a := newAttacker(t, r)
	a.control(r, "before")
	a.do(`
open("req/a", "w").close()
for i in range(60000): os.rename("req/a", "req/b"); os.rename("req/b", "req/a")
put("inflood", '{"tool":"echo","args":{"v":1}}')`)
	begin := time.Now()
	if got := r.waitReply("inflood", 3*time.Second); got.Code != "" {
		t.Errorf("got %+v", got)
	}
	t.Logf("served %s after the flood, noise %d", time.Since(begin), r.srv.Stats().Noise)
	other.works("neighbour")
	a.control(r, "after")
	// O_TMPFILE and link() give no moved-in event at all.
	a.do(`
fd = os.open("req", os.O_TMPFILE|os.O_WRONLY, 0o600); os.write(fd, b'{"tool":"echo","args":{"v":2}}')
assert ctypes.CDLL(None).linkat(-100, b"/proc/self/fd/%%d" %% fd, -100, b"req/req_linked.json", 0x400) == 0`)
	if got := r.waitReply("linked", 2*time.Second); string(got.Result) != "2" {
		t.Errorf("linked: %+v", got)
	}
}

// Noise without end ends the run.
func TestHostileNoiseEndsTheRun(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{Limits: Limits{Flood: 10}})
	a := newAttacker(t, r)
	a.control(r, "before")
	a.do(`
open("req/a", "w").close()
for i in range(3000): os.rename("req/a", "req/b"); os.rename("req/b", "req/a")`)
	select {
	case <-r.flooded:
	case <-time.After(5 * time.Second):
		t.Errorf("no flood, stats %+v", r.srv.Stats())
	}
}

// Swapping the file between checks never makes the host read a secret.
func TestHostileSwap(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{Limits: Limits{Flood: 1 << 20}, MaxCalls: 1 << 20})
	secret := filepath.Join(filepath.Dir(r.req), "host-secret")
	if err := os.WriteFile(secret, []byte(`{"tool":"echo","args":{"v":"SECRET"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAttacker(t, r)
	a.do(`
end = time.time() + 2; n = 0
while time.time() < end:
    n += 1; p = "req/req_s%%d.json" %% n
    put("s%%d" %% n, '{"tool":"echo","args":{"v":1}}')
    try:
        os.symlink("../host-secret", "req/l"); os.rename("req/l", p); os.unlink(p)
    except OSError: pass`)
	eventually(t, "the queue is empty", func() bool { r.srv.mu.Lock(); defer r.srv.mu.Unlock(); return r.srv.running+len(r.srv.waiting) == 0 })
	st := r.srv.Stats()
	for _, rec := range r.recorded() {
		if rec.ResultSize == len(`"SECRET"`) {
			t.Fatalf("leaked in %+v", rec)
		}
	}
	if st.Calls["echo"][OK] == 0 {
		t.Errorf("the race was never run: %+v", st)
	}
	t.Logf("%+v", st)
	a.control(r, "ok")
}
