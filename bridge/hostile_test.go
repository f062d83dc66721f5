package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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

// The reply file system is full of what nobody fetched: the oldest are cut, the
// reply is complete or absent, the marker is only there after it.
func TestHostileFullDisks(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	r, _ := mountRig(t, Config{Limits: Limits{Reply: 300 << 10, keep: time.Nanosecond, ReplyQuota: 1 << 30, Result: 1 << 20}})
	a := newAttacker(t, r)
	for i := range 30 { // 2 inodes each of 128; 64 KiB each of 1 MiB
		a.do("put('f%d', '{\"tool\":\"echo\",\"args\":{\"v\":\"' + 'x' * 65000 + '\"}}')", i)
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

// eventAttacks make events for ever that are about names the host knows: req_held
// is a call in flight.
var eventAttacks = map[string]string{
	"result renamed":   `open("req/result.json", "w").close(); os.rename("req/result.json", "req/a"); os.rename("req/a", "req/result.json")`,
	"result removed":   `open("req/result.json", "w").close(); os.unlink("req/result.json")`,
	"request remade":   `os.path.exists("req/req_held.json") and os.unlink("req/req_held.json"); open("req/req_held.json", "w").close()`,
	"request renamed":  `open("req/a", "w").close(); os.rename("req/a", "req/req_held.json")`,
	"request answered": `open("req/req_before.json", "w").close(); os.unlink("req/req_before.json")`,
	"noise":            `open("req/a", "w").close(); os.rename("req/a", "req/b"); os.rename("req/b", "req/a")`,
}

// Every event that an honest program does not cause counts, whatever its name.
func TestHostileEventsOfKnownNames(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	hold := handlerTool("hold", func(ctx context.Context, _ Call) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
	for name, attack := range eventAttacks {
		r, _ := mountRig(t, Config{Limits: Limits{Flood: 20}}, hold)
		a := newAttacker(t, r)
		a.control(r, "before")
		a.do(`put("held", '{"tool":"hold","args":{}}'); open("req/result.json", "w").close()`)
		a.do(`for i in range(8): open("req/a", "w").close(); os.rename("req/a", "req/result.json")`)
		a.control(r, "result")
		a.do("for i in range(40000): %s\n", attack)
		select {
		case <-r.flooded:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: no flood, stats %+v", name, r.srv.Stats())
		}
		r.srv.Close()
	}
}

// Events cost the host a bounded share of a core, and the requests are served.
func TestHostileEventsCostLittle(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	hold := handlerTool("hold", func(ctx context.Context, _ Call) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
	share := func(attack string) float64 {
		r, _ := mountRig(t, Config{Limits: Limits{Flood: 1 << 30}}, hold)
		a := newAttacker(t, r)
		a.control(r, "before")
		a.do(`put("held", '{"tool":"hold","args":{}}')`)
		begin, cpu := time.Now(), cpuTime()
		done := a.background("end = time.time() + 1.5\nwhile time.time() < end:\n    %s\n    n = n + 1 if 'n' in globals() else 1", attack)
		b := newAttacker(t, r)
		for i := range 3 {
			b.control(r, seq(i))
		}
		<-done
		return float64(cpuTime()-cpu) / float64(time.Since(begin))
	}
	idle := share("time.sleep(0.1)")
	for name, attack := range eventAttacks {
		if name == "request renamed" {
			continue // each one is a refusal: 1000 of them end the run
		}
		got := share(attack)
		t.Logf("%-18s %.1f %% of a core, idle %.1f %%", name, 100*got, 100*idle)
		if got > idle+0.15+float64(raceSlack)/float64(time.Second) {
			t.Errorf("%s costs %.0f %% of a core", name, 100*got)
		}
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
