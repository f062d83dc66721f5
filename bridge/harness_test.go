package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// rig is a served pair of directories.
type rig struct {
	t        testing.TB
	req, res string
	srv      *Server
	cfg      Config
	w        *Watcher
	mu       sync.Mutex
	records  []Record
	flooded  chan struct{}
}

// echoTool returns its arguments' member v, byte for byte.
func echoTool() Tool {
	return Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"v":{}},"required":["v"]}`),
		Handler: HandlerFunc(func(_ context.Context, c Call) (json.RawMessage, error) {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(c.Args, &m); err != nil {
				return nil, err
			}
			return m["v"], nil
		})}
}

func handlerTool(name string, f HandlerFunc) Tool { return Tool{Name: name, Handler: f} }

func newRig(t testing.TB, cfg Config, tools ...Tool) *rig {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return newRigOn(t, w, t.TempDir(), cfg, tools...)
}

func newRigOn(t testing.TB, w *Watcher, dir string, cfg Config, tools ...Tool) *rig {
	t.Helper()
	r := &rig{t: t, w: w, req: filepath.Join(dir, "req"), res: filepath.Join(dir, "resp"), flooded: make(chan struct{}, 9)}
	for path, mode := range map[string]os.FileMode{r.req: os.ModeSticky | 0o733, r.res: 0o711} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	set, err := NewSet(tools)
	if err != nil {
		t.Fatal(err)
	}
	open := func(p string) *os.File {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	cfg.Req, cfg.Resp, cfg.Tools = open(r.req), open(r.res), set
	if cfg.UID == 0 {
		cfg.UID = uint32(os.Getuid())
	}
	if cfg.SandboxID == "" {
		cfg.SandboxID = "t1"
	}
	cfg.OnFlood = func() { r.flooded <- struct{}{} }
	if cfg.Audit == nil {
		cfg.Audit = func(rec Record) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.records = append(r.records, rec)
			return nil
		}
	}
	r.cfg = cfg
	r.srv, err = w.Serve(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.srv.Close() })
	return r
}

func (r *rig) recorded() []Record {
	eventually(r.t, "the records are written", r.srv.log.drained)
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Record(nil), r.records...)
}

// put makes a request file the way a client does.
func (r *rig) put(id, body string) {
	r.t.Helper()
	p := filepath.Join(r.req, "req_"+id+".json")
	if err := os.WriteFile(p+".tmp", []byte(body), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(p+".tmp", p); err != nil {
		r.t.Fatal(err)
	}
}

type reply struct {
	V       int
	ID      string
	Result  json.RawMessage
	Error   string
	Code    Code
	Type    string
	Hint    string
	Details json.RawMessage
	Spill   *struct {
		Path   string
		Size   int
		SHA256 string
	}
}

func (r *rig) has(id string) bool {
	_, err := os.Stat(filepath.Join(r.res, "resp_"+id+".done"))
	return err == nil
}

// waitReply is the article's client: it polls for the marker.
func (r *rig) waitReply(id string, within time.Duration) reply {
	r.t.Helper()
	end := time.Now().Add(within)
	for !r.has(id) {
		if time.Now().After(end) {
			r.t.Fatalf("no reply to %s within %s", id, within)
		}
		time.Sleep(200 * time.Microsecond)
	}
	raw, err := os.ReadFile(filepath.Join(r.res, "resp_"+id+".json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var out reply
	if err := json.Unmarshal(raw, &out); err != nil {
		r.t.Fatalf("reply %q: %v", raw, err)
	}
	if out.ID != id {
		r.t.Fatalf("reply to %s carries id %s", id, out.ID)
	}
	return out
}

func (r *rig) ack(id string) {
	if err := os.Remove(filepath.Join(r.req, "req_"+id+".json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Error(err)
	}
}

// ask sends a body, waits and acknowledges.
func (r *rig) ask(id, body string) reply {
	r.t.Helper()
	r.put(id, body)
	out := r.waitReply(id, 5*time.Second)
	r.ack(id)
	return out
}

// works is the positive control: an ordinary call is answered.
func (r *rig) works(id string) {
	r.t.Helper()
	if got := r.ask(id, `{"tool":"echo","args":{"v":`+`"`+id+`"}}`); string(got.Result) != `"`+id+`"` {
		r.t.Fatalf("control call failed: %+v", got)
	}
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func seq(n int) string { return fmt.Sprintf("c%d", n) }

// Rig is what tests outside of the package see of a rig.
type Rig struct{ r *rig }

// NewRig serves tools to a test outside of the package.
func NewRig(t testing.TB, tools ...Tool) Rig { return Rig{newRig(t, Config{MaxCalls: 100}, tools...)} }

// Ask sends a body and returns the result or the code and text of the failure.
func (r Rig) Ask(id, body string) (result, failure string) {
	got := r.r.ask(id, body)
	if got.Error != "" {
		return "", string(got.Code) + " " + got.Error
	}
	return string(got.Result), ""
}
