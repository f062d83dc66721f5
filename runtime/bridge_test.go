package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
)

func tool[In, Out any](t testing.TB, name string, f func(context.Context, In) (Out, error)) bridge.Tool {
	t.Helper()
	x, err := gofunc.New(name, "A tool of the test.", f)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func tools(t testing.TB, list ...bridge.Tool) *bridge.Set {
	t.Helper()
	set, err := bridge.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

type echoArgs struct {
	V any `json:"v"`
}

func echo(t testing.TB) bridge.Tool {
	return tool(t, "echo", func(_ context.Context, a echoArgs) (any, error) { return a.V, nil })
}

func withTools(set *bridge.Set) tweak {
	return func(p *Policy) { p.Bridge.Tools, p.Bridge.MaxCalls = set, 2000 }
}

// The whole way: generated stub, request file, host, reply.
func TestBridgeFromPython(t *testing.T) {
	r := py(t, `
from sbx_tools import *
import sbx_tools, promptise_tools
print(echo(v=[1, "ü", None, {"a": 2**53 + 1}]))
try: sbx_tools.call("fail", why="because")
except ToolError as e: print(type(e).__name__, e.code, e)
try: sbx_tools.call("nothing")
except ToolNotFound as e: print("not found", e.code)
set_result({"done": True})
`, withTools(tools(t, echo(t), tool(t, "fail", func(_ context.Context, a struct {
		Why string `json:"why"`
	}) (string, error) {
		return "", &bridge.ToolError{Type: "MyError", Message: a.Why}
	})))).ok(t)
	if !strings.HasPrefix(r.Out, "[1, 'ü', None, {'a': 9007199254740993}]\nToolError tool_error ") || !strings.HasSuffix(r.Out, "not found unknown_tool\n") {
		t.Errorf("%q", r.Out)
	}
	if string(r.Value) != `{"done":true}` && string(r.Value) != `{"done": true}` {
		t.Errorf("result %s", r.Value)
	}
	if r.ToolCalls.ByTool["echo"] != 1 || r.ToolCalls.ByCode["ok"] != 1 || r.ToolCalls.ByCode["tool_error"] != 1 {
		t.Errorf("%+v", r.ToolCalls)
	}
	if r.NetworkDenials != 0 {
		t.Errorf("denials %d", r.NetworkDenials)
	}
}

// shCall is the protocol by hand, from a POSIX shell.
const shCall = `call() { printf '{"v":1,"tool":"%s","args":%s}' "$2" "$3" > .bridge/req/req_$1.json.tmp && mv .bridge/req/req_$1.json.tmp .bridge/req/req_$1.json
 while [ ! -e .bridge/resp/resp_$1.done ]; do sleep 0.01; done; cat .bridge/resp/resp_$1.json; echo; rm .bridge/req/req_$1.json; }
`

func TestBridgeFromShell(t *testing.T) {
	r := sh(t, shCall+`call 1 echo '{"v":"hi"}'; call two echo '{}'`, withTools(tools(t, echo(t)))).ok(t)
	lines := strings.Split(r.Out, "\n")
	if lines[0] != `{"v":1,"id":"1","result":"hi"}` || !strings.Contains(lines[1], `"code":"invalid_args"`) {
		t.Errorf("%q", r.Out)
	}
}

func TestNoBridgeWithoutTools(t *testing.T) {
	if r := sh(t, "ls -A; echo $PYTHONPATH; mkdir .bridge && echo free").ok(t); r.Out != "\nfree\n" {
		t.Errorf("%q", r.Out)
	}
}

func TestBridgeMounts(t *testing.T) {
	r := sh(t, `cd .bridge; ls; for d in req resp; do ls $d 2>&1 | grep -c denied; done
for f in x sdk/x tools.json resp/x resp/resp_1.json resp/bell; do (echo x > $f) 2>/dev/null && echo "wrote $f"; done
cd ..; (mv .bridge b; rmdir .bridge/req; rm -rf .bridge; mv .bridge/req .bridge/r; rm -f .bridge/tools.json) 2>/dev/null; ls -d .bridge .bridge/req .bridge/tools.json
echo x > .bridge/req/x && rm .bridge/req/x && echo control`, withTools(tools(t, echo(t)))).ok(t)
	if r.Out != "req\nresp\nsdk\ntools.json\n1\n1\n.bridge\n.bridge/req\n.bridge/tools.json\ncontrol\n" {
		t.Errorf("%q", r.Out)
	}
}

// Case 14: odd files in a request's place cost one refusal each; a proper call
// works after all of them.
func TestBridgeOddRequests(t *testing.T) {
	r := py(t, `
import os, sys, subprocess, json, time
os.chdir("/workspace/.bridge")
def put(id, make):
    make(f"req/t{id}"); os.rename(f"req/t{id}", f"req/req_{id}.json")
def file(data): return lambda p: open(p, "wb").write(data)
bad = {
 "fifo": os.mkfifo, "dir": os.mkdir, "link": lambda p: os.symlink("/etc/passwd", p), "magic": lambda p: os.symlink("/proc/self/environ", p),
 "sock": lambda p: __import__("socket").socket(1).bind(p), "empty": file(b""), "array": file(b"[]"), "num": file(b"5"), "null": file(b"null"),
 "type": file(b'{"tool":1}'), "big": file(b"{" + b" " * (2 << 20) + b"}"), "deep": file(b"[" * 10000), "utf": file(b'{"tool":"\xff"}'),
 "dup": file(b'{"tool":"echo","tool":"echo","args":{"v":1}}'), "junk": file(b'{"tool":"echo","args":{"v":1}} x'),
}
for id, make in bad.items(): put(id, make)
os.link("/workspace/.bridge/req/req_num.json", "req/hard") 
for id in bad:
    end = time.monotonic() + 10
    while not os.path.exists(f"resp/resp_{id}.done"):
        if time.monotonic() > end: print("no reply for", id); break
        time.sleep(0.005)
    else:
        body = json.load(open(f"resp/resp_{id}.json"))
        if body.get("code") not in ("bad_request", "too_large"): print(id, body)
sys.path.insert(0, "/workspace/.bridge/sdk")
from sbx_tools import echo
print(echo(v="still here"))
`, withTools(tools(t, echo(t)))).ok(t)
	if r.Out != "still here\n" || r.ToolCalls.Total != 1 {
		t.Errorf("%v %+v", r, r.ToolCalls)
	}
}

// Case 20: each caller gets its own answer.
func TestBridgeConcurrentCallers(t *testing.T) {
	r := py(t, `
from concurrent.futures import ThreadPoolExecutor
from sbx_tools import echo
with ThreadPoolExecutor(10) as ex: print(list(ex.map(lambda i: echo(v=i), range(1000))) == list(range(1000)))
`, withTools(tools(t, echo(t))), timeout(2*time.Minute)).ok(t)
	if r.Out != "True\n" || r.ToolCalls.ByCode["ok"] != 1000 {
		t.Errorf("%v %+v", r, r.ToolCalls)
	}
}

func TestBridgeBudgetAndApproval(t *testing.T) {
	set := tools(t, echo(t))
	r := py(t, `
from sbx_tools import *
for i in range(4):
    try: print(echo(v=i))
    except ToolError as e: print(e.code)
`, withTools(set), func(p *Policy) { p.Bridge.MaxCalls = 2 }).ok(t)
	if r.Out != "0\n1\nbudget_exceeded\nbudget_exceeded\n" {
		t.Errorf("%q", r.Out)
	}
	p := NewPolicy("/usr/bin/python3", "-c", `
from sbx_tools import *
for v in ("yes", "no"):
    try: print(echo(v=v))
    except ToolDenied as e: print(e.code)
`)
	p.Bridge.Tools = set
	r = runOn(t, testHost(t), p, RunOptions{Approve: func(_ context.Context, c bridge.Call) (bridge.Decision, error) {
		return bridge.Decision{Allow: strings.Contains(string(c.Args), "yes")}, nil
	}}).ok(t)
	if r.Out != "yes\ndenied\n" {
		t.Errorf("%q", r.Out)
	}
}

// The end of the program cancels what it called, and the run does not wait.
func TestBridgeToolIsCancelled(t *testing.T) {
	cancelled := make(chan struct{})
	slowTool := tool(t, "slow", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		close(cancelled)
		return "late", nil
	})
	r := sh(t, shCall+`(call 1 slow '{}') & while [ ! -e .bridge/req/req_1.json ]; do :; done; sleep 0.3; echo bye`, withTools(tools(t, slowTool))).ok(t)
	if r.Usage.Wall > slow {
		t.Errorf("%v", r)
	}
	select {
	case <-cancelled:
	case <-time.After(slow):
		t.Error("the tool runs on")
	}
}

func TestBridgeTimeouts(t *testing.T) {
	slowTool := tool(t, "slow", func(ctx context.Context, _ struct{}) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	r := py(t, `
from sbx_tools import *
try: slow()
except ToolTimeout as e: print(e.code)
`, withTools(tools(t, slowTool)), func(p *Policy) { p.Bridge.ToolTimeout = 200 * time.Millisecond }).ok(t)
	if r.Out != "timeout\n" {
		t.Errorf("%v", r)
	}
}

// Two sandboxes at once never see each other's calls, and a tool may itself
// start a sandbox.
func TestBridgeManySandboxes(t *testing.T) {
	h := testHost(t)
	var nested atomic.Int64
	set := tools(t, echo(t), tool(t, "nest", func(ctx context.Context, _ struct{}) (string, error) {
		nested.Add(1)
		r := runOn(t, h, NewPolicy("echo", "-n", "inner"), RunOptions{})
		return r.Out, nil
	}))
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			p := NewPolicy("/usr/bin/python3", "-c", fmt.Sprintf(`
from sbx_tools import *
for i in range(20): assert echo(v=[%d, i]) == [%d, i]
print(nest())`, i, i))
			p.Bridge.Tools = set
			if r := runOn(t, h, p, RunOptions{}); r.Out != "inner\n" {
				t.Errorf("%v", r)
			}
		})
	}
	wg.Wait()
	if nested.Load() != 12 {
		t.Errorf("%d nested", nested.Load())
	}
}

func TestBridgeFlood(t *testing.T) {
	r := py(t, `
import os
os.chdir("/workspace/.bridge/req")
i = 0
while True:
    open("t", "w").write("[]"); os.rename("t", f"req_{i}.json"); i += 1
    if i % 500 == 0:
        for j in range(i - 500, i):
            try: os.unlink(f"req_{j}.json")
            except OSError: pass
`, withTools(tools(t, echo(t))), timeout(2*time.Minute))
	if r.Reason != ReasonBridgeFlood {
		t.Errorf("%v %+v", r, r.ToolCalls)
	}
}

func TestEvents(t *testing.T) {
	var mu sync.Mutex
	var types []string
	p := NewPolicy("/usr/bin/python3", "-c", `
from sbx_tools import *
import socket
echo(v=1)
try: socket.create_connection(("1.1.1.1", 1))
except OSError: pass`)
	p.Bridge.Tools = tools(t, echo(t))
	p.Labels = map[string]string{"run": "7"}
	runOn(t, testHost(t), p, RunOptions{Events: func(e Event) error {
		mu.Lock()
		defer mu.Unlock()
		types = append(types, e.Type)
		if e.Labels["run"] != "7" || e.Sandbox == "" || e.Time == "" {
			t.Errorf("%+v", e)
		}
		return nil
	}}).ok(t)
	if got := strings.Join(types, " "); got != "start tool_call denial end" {
		t.Errorf("%s", got)
	}
	// A start that cannot be recorded is no start.
	r := runOn(t, testHost(t), NewPolicy("true"), RunOptions{Events: func(Event) error { return fmt.Errorf("disk full") }})
	if r.Started || !strings.Contains(r.Error.Message, "disk full") {
		t.Errorf("%v", r)
	}
}
