package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestOldAndNewFormsAreServed(t *testing.T) {
	r := newRig(t, Config{MaxCalls: 10}, echoTool())
	r.works("old1")
	got := r.ask("new1", `{"v":1,"tool":"echo","args":{"v":9007199254740993},"timeout_ms":5000,"bell":0}`)
	if string(got.Result) != "9007199254740993" || got.V != 1 {
		t.Fatalf("got %+v", got)
	}
	eventually(t, "acknowledged replies are removed", func() bool { return !r.has("old1") && !r.has("new1") })
	r.srv.Close() // the record follows the reply
	recs := r.recorded()
	slices.SortFunc(recs, func(a, b Record) int { return strings.Compare(b.Call, a.Call) }) // old1, new1
	if len(recs) != 2 || recs[1].Call != "new1" || recs[1].Code != OK || recs[1].Tool != "echo" || recs[1].ArgsSize != 22 || recs[1].ResultSize != 16 || len(recs[1].ArgsSHA256) != 64 {
		t.Fatalf("records %+v", recs)
	}
}

func TestCodes(t *testing.T) {
	fail := handlerTool("fail", func(context.Context, Call) (json.RawMessage, error) {
		return nil, &ToolError{Type: "ValueError", Message: "no such city", Hint: "try Paris", Details: json.RawMessage(`{"a":1}`)}
	})
	secret := handlerTool("secret", func(context.Context, Call) (json.RawMessage, error) {
		return nil, errors.New("open /host/secret: permission denied")
	})
	boom := handlerTool("boom", func(context.Context, Call) (json.RawMessage, error) { panic("host path /host/secret") })
	junk := handlerTool("junk", func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage("{"), nil })
	slow := handlerTool("slow", func(ctx context.Context, _ Call) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
	deaf := handlerTool("deaf", func(context.Context, Call) (json.RawMessage, error) {
		time.Sleep(400 * time.Millisecond)
		return json.RawMessage("1"), nil
	})
	deaf.Timeout = 20 * time.Millisecond
	typed := echoTool()
	typed.Name = "typed"
	typed.InputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}}}}}}`)
	r := newRig(t, Config{MaxCalls: 100}, echoTool(), fail, secret, boom, junk, slow, deaf, typed)
	for i, c := range []struct {
		body string
		code Code
		want string
	}{
		{`[]`, BadRequest, "must be an object"},
		{`5`, BadRequest, "must be an object"},
		{`null`, BadRequest, "must be an object"},
		{`{"tool":1}`, BadRequest, `"tool"`},
		{`{"args":{}}`, BadRequest, `"tool" is missing`},
		{`{"Tool":"echo"}`, BadRequest, `unknown field`},
		{`{"tool":"echo","tool":"echo","args":{"v":1}}`, BadRequest, "duplicate key"},
		{`{"tool":"echo","args":{"v":1}} x`, BadRequest, "text after"},
		{"{\"tool\":\"echo\",\"args\":{\"v\":\"\xff\"}}", BadRequest, "UTF-8"},
		{`{"tool":"echo","args":{"v":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}}`, BadRequest, "deeper than 64"},
		{`{"tool":"echo","args":{"v":[` + strings.Repeat("[],", 20000) + `1]}}`, BadRequest, "more than 10000"},
		{`{"tool":"echo","args":{"v":"` + strings.Repeat("x", 2<<20) + `"}}`, TooLarge, "1048576 bytes"},
		{`{"tool":"echo","args":{"v":` + strings.Repeat("9", 5000) + `}}`, BadRequest, "digits"},
		{`{"tool":"echo","args":{"v":1},"timeout_ms":0}`, BadRequest, "timeout_ms"},
		{`{"tool":"echo","args":{"v":1},"timeout_ms":1.5}`, BadRequest, "timeout_ms"},
		{`{"v":2,"tool":"echo","args":{"v":1}}`, BadRequest, `"v"`},
		{`{"tool":"echo","args":[]}`, BadRequest, `"args"`},
		{`{"tool":"nope","args":{}}`, UnknownTool, "nope"},
		{`{"tool":"echo","args":{}}`, InvalidArgs, "v: is missing"},
		{`{"tool":"typed","args":{"a":[{"n":1},{"n":"x"}]}}`, InvalidArgs, "a[1].n: is string, must be integer"},
		{`{"tool":"fail","args":{}}`, ToolFailed, "ValueError: no such city"},
		{`{"tool":"secret","args":{}}`, ToolFailed, "ToolError: the tool failed"},
		{`{"tool":"boom","args":{}}`, Internal, "broke down"},
		{`{"tool":"junk","args":{}}`, Internal, "not JSON"},
		{`{"tool":"slow","args":{},"timeout_ms":30}`, Timeout, "in time"},
		{`{"tool":"deaf","args":{}}`, Timeout, "in time"},
		{`{"tool":"echo","args":{"v":null}}`, "", ""},
	} {
		got := r.ask(seq(i), c.body)
		if got.Code != c.code || !strings.Contains(got.Error, c.want) {
			t.Errorf("%.60s: got %s %q, want %s %q", c.body, got.Code, got.Error, c.code, c.want)
		}
		if strings.Contains(got.Error, "/host") {
			t.Errorf("host fact in %q", got.Error)
		}
		r.works("ok" + seq(i))
	}
	details := 0
	for _, rec := range r.recorded() {
		if strings.Contains(rec.Detail, "/host/secret") {
			details++
		}
	}
	if details != 2 {
		t.Errorf("the host's record holds %d of 2 details", details)
	}
	eventually(t, "the late result is counted", func() bool { st := r.srv.Stats(); return st.Late == 1 && st.Stuck == 0 })
}

func TestBudgetAndApproval(t *testing.T) {
	limited := echoTool()
	limited.Name, limited.MaxCalls = "limited", 1
	r := newRig(t, Config{MaxCalls: 3, Approve: func(_ context.Context, c Call) (Decision, error) {
		switch {
		case strings.Contains(string(c.Args), "deny"):
			return Decision{Reason: "not today"}, nil
		case strings.Contains(string(c.Args), "break"):
			return Decision{}, errors.New("gate is down at /host")
		case strings.Contains(string(c.Args), "panic"):
			panic("gate")
		}
		return Decision{Allow: true}, nil
	}}, echoTool(), limited)
	for i, c := range []struct {
		tool, v string
		code    Code
	}{
		{"echo", "deny", Denied}, {"echo", "break", Internal}, {"echo", "panic", Internal},
		{"limited", "1", ""}, {"limited", "2", BudgetExceeded}, {"echo", "3", ""}, {"echo", "4", ""}, {"echo", "5", BudgetExceeded},
	} {
		got := r.ask(seq(i), fmt.Sprintf(`{"tool":%q,"args":{"v":%q}}`, c.tool, c.v))
		if got.Code != c.code {
			t.Errorf("%v: got %s %s", c, got.Code, got.Error)
		}
	}
	st := r.srv.Close()
	if st.Dispatched != 3 || st.Calls["echo"][Denied] != 1 || st.Calls["limited"][BudgetExceeded] != 1 {
		t.Errorf("stats %+v", st)
	}
	none := newRig(t, Config{MaxCalls: 0}, echoTool())
	if got := none.ask("a", `{"tool":"echo","args":{"v":1}}`); got.Code != BudgetExceeded {
		t.Errorf("MaxCalls 0: got %+v", got)
	}
}

func TestReplayIsRefused(t *testing.T) {
	var calls atomic.Int32
	r := newRig(t, Config{MaxCalls: 10}, handlerTool("count", func(context.Context, Call) (json.RawMessage, error) {
		calls.Add(1)
		return json.RawMessage("1"), nil
	}), echoTool())
	const body = `{"tool":"count","args":{}}`
	if got := r.ask("x", body); got.Code != "" {
		t.Fatalf("got %+v", got)
	}
	eventually(t, "the reply is removed", func() bool { return !r.has("x") })
	if got := r.ask("x", body); got.Code != BadRequest || !strings.Contains(got.Error, "before") {
		t.Fatalf("replay: got %+v", got)
	}
	r.put("y", body)
	r.waitReply("y", time.Second)
	r.put("y", body) // renamed over its own unfetched answer
	eventually(t, "the overwrite is counted", func() bool { return r.srv.Stats().Refused == 2 })
	if got := r.waitReply("y", time.Second); got.Code != "" {
		t.Fatalf("the first answer was touched: %+v", got)
	}
	r.works("z")
	time.Sleep(2 * sweepEvery) // sweeps see y again and again
	if calls.Load() != 2 || r.srv.Stats().Refused != 2 {
		t.Fatalf("%d calls, stats %+v", calls.Load(), r.srv.Stats())
	}
}

func TestDeadlinesAndClose(t *testing.T) {
	started := make(chan struct{}, 10)
	wait := handlerTool("wait", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	deaf := handlerTool("deaf", func(context.Context, Call) (json.RawMessage, error) {
		started <- struct{}{}
		time.Sleep(700 * time.Millisecond)
		return json.RawMessage("1"), nil
	})
	r := newRig(t, Config{MaxCalls: 10, Concurrency: 2}, wait, deaf)
	r.put("a", `{"tool":"wait","args":{}}`)
	r.put("b", `{"tool":"deaf","args":{}}`)
	r.put("c", `{"tool":"wait","args":{}}`)
	r.put("d", `{"tool":"wait","args":{},"timeout_ms":40}`) // expires in the queue
	<-started
	<-started
	if got := r.waitReply("d", time.Second); got.Code != Timeout {
		t.Fatalf("queued past its deadline: %+v", got)
	}
	begin := time.Now()
	st := r.srv.Close()
	if took := time.Since(begin); took > 100*time.Millisecond+raceSlack {
		t.Errorf("Close took %s", took)
	}
	if st.Calls["wait"][Closed] != 2 || st.Calls["deaf"][Closed] != 1 || st.Dispatched != 2 || st.Stuck != 1 {
		t.Errorf("stats %+v", st)
	}
	if again := r.srv.Close(); again.Dispatched != st.Dispatched {
		t.Error("the second Close differs")
	}
	if r.has("a") || r.has("b") || r.has("c") {
		t.Error("a reply was published after the end")
	}
}

func TestRunDeadlineAnswersClosed(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r := newRigOn(t, w, t.TempDir(), Config{MaxCalls: 5}, echoTool())
	r.srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r2dir := t.TempDir()
	r2 := newRigOn(t, w, r2dir, Config{MaxCalls: 5}, echoTool())
	r2.srv.Close()
	for _, p := range []string{"bell", "bell_0", "bell_1"} {
		_ = os.Remove(filepath.Join(r2.res, p))
	}
	srv, err := w.Serve(ctx, r2.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	r2.srv = srv
	r2.works("a")
	cancel()
	if got := r2.ask("b", `{"tool":"echo","args":{"v":1}}`); got.Code != Closed {
		t.Fatalf("got %+v", got)
	}
}

func TestSpillAndQuota(t *testing.T) {
	big := handlerTool("big", func(_ context.Context, c Call) (json.RawMessage, error) {
		var a struct{ N int }
		if err := json.Unmarshal(c.Args, &a); err != nil {
			return nil, err
		}
		return json.RawMessage(`"` + strings.Repeat("x", a.N-2) + `"`), nil
	})
	r := newRig(t, Config{MaxCalls: 100, Limits: Limits{Reply: 1000, Result: 20000, ReplyQuota: 50000}}, big, echoTool())
	ask := func(id string, n int) reply {
		r.put(id, fmt.Sprintf(`{"tool":"big","args":{"N":%d}}`, n))
		return r.waitReply(id, time.Second)
	}
	if got := ask("a", 1000); len(got.Result) != 1000 || got.Spill != nil {
		t.Fatalf("inline: %+v", got)
	}
	got := ask("b", 20000)
	if got.Spill == nil || got.Spill.Size != 20000 || got.Spill.Path != "spill_b.json" {
		t.Fatalf("spill: %+v", got)
	}
	raw, err := os.ReadFile(filepath.Join(r.res, got.Spill.Path))
	if err != nil || len(raw) != 20000 {
		t.Fatalf("spill file: %d %v", len(raw), err)
	}
	if got := ask("c", 20001); got.Code != TooLarge {
		t.Fatalf("too large: %+v", got)
	}
	ask("d", 18000)
	if got := ask("full", 17000); got.Code != Overloaded {
		t.Fatalf("over the quota: %+v", got)
	}
	if raw, err := os.ReadFile(filepath.Join(r.res, "spill_b.json")); err != nil || len(raw) != 20000 || !r.has("a") {
		t.Errorf("a reply that nobody fetched yet is cut: %d %v", len(raw), err)
	}
	r.ack("b")
	eventually(t, "the spill file is removed", func() bool {
		_, err := os.Stat(filepath.Join(r.res, "spill_b.json"))
		return os.IsNotExist(err)
	})
	if got := ask("e", 17000); got.Spill == nil {
		t.Fatalf("room again: %+v", got)
	}
	if st := r.srv.Stats(); st.Evicted != 0 || st.Refused != 0 {
		t.Errorf("stats %+v", st)
	}
}

// What is cut to make room is still answered, and the record says so.
func TestOldRepliesAreCut(t *testing.T) {
	r := newRig(t, Config{MaxCalls: 1000, Limits: Limits{ReplyQuota: 200_000, Result: 100_000, Reply: 60_000, keep: 20 * time.Millisecond, ReplyFiles: 25}}, echoTool())
	for i := range 20 {
		size := 40_000
		if i%4 == 0 {
			size = 80_000 // spilled
		}
		r.put(seq(i), `{"tool":"echo","args":{"v":"`+strings.Repeat("x", size)+`"}}`)
		if got := r.waitReply(seq(i), time.Second); got.Code != "" {
			t.Fatalf("%d: %+v", i, got)
		}
		time.Sleep(25 * time.Millisecond)
	}
	cut := 0
	for i := range 20 {
		got := r.waitReply(seq(i), time.Second)
		switch {
		case got.Code == TooLarge:
			cut++
		case got.Spill != nil:
			if _, err := os.Stat(filepath.Join(r.res, got.Spill.Path)); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		case len(got.Result) < 40_000:
			t.Errorf("%d: %+v", i, got)
		}
	}
	told := 0
	for _, rec := range r.recorded() {
		if rec.Event == "evicted" && rec.Call != "" {
			told++
		}
	}
	if st := r.srv.Stats(); cut < 10 || st.Evicted != cut || told != cut {
		t.Errorf("%d are cut, %d told, stats %+v", cut, told, st)
	}
	// More unfetched replies than files: new calls are overloaded, the tool does not run.
	over := 0
	for i := range 10 {
		r.put("f"+seq(i), `{"tool":"echo","args":{"v":1}}`)
		if got := r.waitReply("f"+seq(i), time.Second); got.Code == Overloaded {
			over++
		}
	}
	if over < 4 || over > 5 { // a reply counts just after it can be seen
		t.Errorf("%d are overloaded", over)
	}
	for i := range 20 {
		r.ack(seq(i))
	}
	eventually(t, "the replies are removed", func() bool { return !r.has("c0") && !r.has("c19") })
	r.works("again")
}

// The calls of one sandbox hold a bounded amount of the host's memory.
func TestMemoryOfCallsIsBounded(t *testing.T) {
	gate := make(chan struct{})
	hold := handlerTool("hold", func(ctx context.Context, _ Call) (json.RawMessage, error) { <-gate; return json.RawMessage("1"), nil })
	large := handlerTool("large", func(context.Context, Call) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", 30<<20) + `"`), nil
	})
	r := newRig(t, Config{MaxCalls: 1000, Concurrency: 8}, hold, large, echoTool())
	body := `{"tool":"hold","args":{"v":"` + strings.Repeat("x", 1<<20-100) + `"}}`
	for i := range 40 {
		r.put(seq(i), body)
		eventually(t, "it is seen", func() bool { r.srv.mu.Lock(); defer r.srv.mu.Unlock(); return r.srv.entries[seq(i)] != nil })
	}
	r.put("last", `{"tool":"nope","args":{}}`)
	r.waitReply("last", time.Second)
	over := r.srv.Stats().Calls["hold"][Overloaded]
	if over < 7 || over > 9 {
		t.Errorf("%d of 40 are overloaded", over)
	}
	close(gate)
	eventually(t, "all are answered", func() bool { r.srv.mu.Lock(); defer r.srv.mu.Unlock(); return r.srv.args == 0 })
	r.works("again")
	for i := range 4 {
		r.put("l"+seq(i), `{"tool":"large","args":{}}`)
	}
	for i := range 4 {
		r.waitReply("l"+seq(i), time.Minute)
	}
	st := r.srv.Close().Calls["large"] // counted after the reply
	if st[OK] == 0 || st[OK] > 2 || st[OK]+st[Overloaded] != 4 {
		t.Errorf("large results: %v", st)
	}
}

func TestFloodEndsTheService(t *testing.T) {
	r := newRig(t, Config{MaxCalls: 10, Limits: Limits{Flood: 20}}, echoTool())
	r.works("ok")
	for i := range 40 {
		r.put(seq(i), `{"tool":"nope","args":{}}`)
	}
	<-r.flooded
	if st := r.srv.Stats(); st.Refused != 20 || !st.Flooded {
		t.Errorf("stats %+v", st)
	}
	r.put("late", `{"tool":"echo","args":{"v":1}}`)
	time.Sleep(2 * sweepEvery)
	if r.has("late") || len(r.flooded) != 0 {
		t.Error("served after the flood, or told twice")
	}
}

// Requests that expire in the queue never run, so the budget does not bound them.
func TestExpiringRequestsAreAFlood(t *testing.T) {
	slow := handlerTool("slow", func(ctx context.Context, _ Call) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
	r := newRig(t, Config{MaxCalls: 5, Concurrency: 1, Limits: Limits{Flood: 10}}, slow)
	r.put("hold", `{"tool":"slow","args":{}}`)
	for i := range 40 {
		r.put(seq(i), `{"tool":"slow","args":{},"timeout_ms":1}`)
		time.Sleep(2 * time.Millisecond)
	}
	select {
	case <-r.flooded:
	case <-time.After(2 * time.Second):
		t.Errorf("stats %+v", r.srv.Stats())
	}
}

func TestPollingIsServedAndSaid(t *testing.T) {
	w := newPollingWatcher()
	r := newRigOn(t, w, t.TempDir(), Config{MaxCalls: 10}, echoTool())
	r.works("a")
	r.works("b")
	eventually(t, "replies are removed by sweeps alone", func() bool { return !r.has("a") && !r.has("b") })
	st := r.srv.Close()
	if !w.Polling() || !st.Polling || r.recorded()[0].Event != "polling" {
		t.Errorf("polling is not said: %+v", r.recorded())
	}
}
