package stubs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/stubs"
)

// served is a bridge directory with a running server.
type served struct {
	t   testing.TB
	dir string
	srv *bridge.Server
}

func tool(name, schema string, h bridge.HandlerFunc) bridge.Tool {
	return bridge.Tool{Name: name, InputSchema: json.RawMessage(schema), Handler: h}
}

// echoArgs answers with the arguments as they came.
func echoArgs(_ context.Context, c bridge.Call) (json.RawMessage, error) { return c.Args, nil }

// echoV answers with the argument v as it came.
func echoV(_ context.Context, c bridge.Call) (json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(c.Args, &m); err != nil {
		return nil, err
	}
	return m["v"], nil
}

func echo() bridge.Tool {
	return tool("echo", `{"type":"object","properties":{"v":{}},"required":["v"]}`, echoV)
}

func serve(t testing.TB, cfg bridge.Config, tools ...bridge.Tool) *served {
	t.Helper()
	set, err := bridge.NewSet(tools)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := stubs.Files(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"req", "resp", "sdk"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Path), f.Data, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name string) *os.File {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	w, err := bridge.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	cfg.SandboxID, cfg.Tools = "py", set
	if cfg.UID == 0 {
		cfg.UID = uint32(os.Getuid())
	}
	cfg.Req, cfg.Resp = open("req"), open("resp")
	srv, err := w.Serve(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return &served{t, dir, srv}
}

// python runs a program with the stubs and returns its standard output.
func (s *served) python(program string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-I", "-c",
		"import sys; sys.path.insert(0, "+fmt.Sprintf("%q", filepath.Join(s.dir, "sdk"))+")\n"+program)
	cmd.Env = []string{"SBX_BRIDGE=" + s.dir, "PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "LANG=C.UTF-8"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	return out.String()
}

func (s *served) wants(program, out string) {
	s.t.Helper()
	if got := s.python(program); strings.TrimSpace(got) != strings.TrimSpace(out) {
		s.t.Errorf("got\n%s\nwant\n%s", got, out)
	}
}

// Case 22: the same value comes back, or a typed error says why.
func TestPythonValues(t *testing.T) {
	s := serve(t, bridge.Config{MaxCalls: 1000}, echo())
	s.wants(`
from sbx_tools import *
import math, enum
same = [2**53+1, -2**200, 10**4000, 0, -0.0, 1.5e300, 5e-324, 0.1, "", "\ud800", "a\udfffb", "\U0001f600", "\x00\n\u2028",
    bytes(range(256)), b"", None, True, False, [], {}, [1, [2, {"a": b"x"}]], {"": 1, "é": {"b": None}},
    float("inf"), float("-inf"), {"k": [float("inf")]}]
for v in same:
    got = echo(v)
    assert got == v and type(got) is type(v), (v, got)
assert math.copysign(1, echo(-0.0)) == -1
assert math.isnan(echo(float("nan"))) and math.isnan(echo([float("nan")])[0])
assert echo((1, 2)) == [1, 2] and echo(bytearray(b"z")) == b"z"
loop = []; loop.append(loop)
deep = []
for _ in range(100): deep = [deep]
for bad in [{1: 2}, {"$sbx": 1}, object(), {1, 2}, 10**5000, loop, deep, 1j]:
    try: print("no error", bad, echo(bad))
    except InvalidArguments as e: assert str(e) and e.code == "invalid_args", e
print("ok")`, "ok")
	if n := s.srv.Stats().Refused; n != 0 {
		t.Errorf("%d requests were refused, none should have been sent", n)
	}
}

func TestPythonErrors(t *testing.T) {
	fails := tool("fails", `{"type":"object"}`, func(_ context.Context, c bridge.Call) (json.RawMessage, error) {
		return nil, &bridge.ToolError{Type: "CityError", Message: "no such city", Hint: "try Paris", Details: json.RawMessage(`{"n":1}`)}
	})
	slow := tool("slow", `{"type":"object"}`, func(ctx context.Context, c bridge.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	big := tool("big", `{"type":"object"}`, func(context.Context, bridge.Call) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`), nil
	})
	huge := tool("huge", `{"type":"object"}`, func(context.Context, bridge.Call) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`), nil
	})
	typed := tool("typed", `{"type":"object","properties":{"n":{"type":"integer","maximum":5}},"required":["n"],"additionalProperties":false}`, echoArgs)
	s := serve(t, bridge.Config{MaxCalls: 9, Limits: bridge.Limits{Reply: 1 << 20, Result: 4 << 20}, Approve: func(_ context.Context, c bridge.Call) (bridge.Decision, error) {
		return bridge.Decision{Allow: !strings.Contains(string(c.Args), "no"), Reason: "never"}, nil
	}}, echo(), fails, slow, big, huge, typed)
	s.wants(`
from sbx_tools import *
import pickle
def show(f):
    try: print("no error", f())
    except ToolError as e:
        assert e.id is None or len(e.id) == 32
        assert pickle.loads(pickle.dumps(e)).code == e.code
        print(type(e).__name__, e.tool, e.code, e.type, e.hint, e.details, str(e)[:60])
show(fails)
show(slow.options(timeout=0.05))
show(lambda: typed("x"))
show(lambda: typed(9))
show(lambda: typed(1, zap=2))
show(lambda: call("nope"))
show(lambda: echo("no"))
assert len(big()) == 3 << 20      # through a spill file
show(huge)
show(lambda: echo("x" * (2 << 20)))
try: typed()
except TypeError as e: print(e)
for i in range(9): 
    try: echo(i)
    except BudgetExceeded as e: print(e.code, i); break
show(lambda: describe("nope"))
print([t["name"] for t in list_tools()], describe("typed")["inputSchema"]["required"])
`, `
ToolError fails tool_error CityError try Paris {'n': 1} CityError: no such city
ToolTimeout slow timeout ToolTimeout None None ToolTimeout: the tool did not answer in time
InvalidArguments typed invalid_args InvalidArguments None {'path': 'n'} InvalidArguments: n: is string, must be integer
InvalidArguments typed invalid_args InvalidArguments None {'path': 'n'} InvalidArguments: n: is more than 5
InvalidArguments typed invalid_args InvalidArguments None {'path': 'zap'} InvalidArguments: zap: is not an argument of this tool
ToolNotFound nope unknown_tool ToolNotFound None {'known': ['echo', 'fails', 'slow', 'big', 'huge', 'typed']} ToolNotFound: there is no tool "nope"
ToolDenied echo denied ToolDenied None None ToolDenied: never
ResultTooLarge huge too_large ResultTooLarge None None ResultTooLarge: the result is larger than the limit
ResultTooLarge echo too_large ResultTooLarge None None ResultTooLarge: more than 1048576 bytes
typed() missing 1 required positional argument: 'n'
budget_exceeded 5
ToolNotFound nope unknown_tool ToolNotFound None {'known': ['echo', 'fails', 'slow', 'big', 'huge', 'typed']} ToolNotFound: there is no tool 'nope'
['echo', 'fails', 'slow', 'big', 'huge', 'typed'] ['n']
`)
}

// Case 20: ten threads, a thousand rounds, everybody gets the own answer; and
// more threads than there are doorbells.
func TestPythonThreads(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	s := serve(t, bridge.Config{MaxCalls: 100000}, echo())
	s.wants(fmt.Sprintf(`
from sbx_tools import *
import threading
def run(threads, rounds):
    bad = []
    def work(i):
        for k in range(rounds):
            v = [i, k]
            if echo(v) != v: bad.append(v)
    ts = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for t in ts: t.start()
    for t in ts: t.join()
    return bad
print(run(10, %d), run(80, 10))
`, rounds), "[] []")
	if st := s.srv.Stats(); st.Calls["echo"][bridge.OK] != 10*rounds+800 || st.Refused != 0 {
		t.Errorf("stats %+v", st)
	}
	left, err := os.ReadDir(filepath.Join(s.dir, "req"))
	if err != nil || len(left) != 0 {
		t.Errorf("%d files left in req, %v", len(left), err)
	}
}

// Case 23: one of three fails; also the blocking form in a thread of an async
// program.
func TestPythonAsync(t *testing.T) {
	maybe := tool("maybe", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, func(_ context.Context, c bridge.Call) (json.RawMessage, error) {
		if strings.Contains(string(c.Args), "2") {
			return nil, &bridge.ToolError{Message: "no twos"}
		}
		return json.RawMessage(`"fine"`), nil
	})
	hang := tool("hang", `{"type":"object"}`, func(ctx context.Context, c bridge.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s := serve(t, bridge.Config{MaxCalls: 1000}, echo(), maybe, hang)
	s.wants(`
from sbx_tools import *
import asyncio
async def main():
    got = await asyncio.gather(*(maybe.aio(n) for n in (1, 2, 3)), return_exceptions=True)
    print([str(g) for g in got])
    got = await asyncio.gather(*(asyncio.to_thread(maybe, n) for n in (1, 2, 3)), return_exceptions=True)
    print([str(g) for g in got])
    print(maybe(1))
    n = await asyncio.gather(*(echo.aio(i) for i in range(200)))
    assert n == list(range(200))
    print(await call.aio("echo", v=5), await echo.options(timeout=5).aio(6))
    try: await asyncio.wait_for(hang.aio(), 0.1)
    except asyncio.TimeoutError: print("cancelled")
    try: await hang.options(timeout=0.05).aio()
    except ToolTimeout: print("timeout")
    print(await echo.aio(7))
asyncio.run(main())
print(echo(8))
`, `
['fine', 'ToolError: no twos', 'fine']
['fine', 'ToolError: no twos', 'fine']
fine
5 6
cancelled
timeout
7
8
`)
}

func TestPythonFork(t *testing.T) {
	s := serve(t, bridge.Config{MaxCalls: 10000}, echo())
	s.wants(`
from sbx_tools import *
import os, threading, multiprocessing, signal
assert echo(0) == 0
stop = False
def busy():
    while not stop: assert echo("busy") == "busy"
t = threading.Thread(target=busy); t.start()
kids = []
for i in range(8):
    pid = os.fork()
    if pid == 0:
        ok = all(echo([i, k]) == [i, k] for k in range(20))
        os._exit(0 if ok else 1)
    kids.append(pid)
print([os.waitpid(p, 0)[1] for p in kids])
stop = True; t.join()
with multiprocessing.get_context("fork").Pool(3) as p: print(p.map(echo, range(5)))
# a killed process gives its doorbell back
pid = os.fork()
if pid == 0:
    echo(1); signal.pause()
os.kill(pid, 9); os.waitpid(pid, 0)
print(echo(2))
`, "[0, 0, 0, 0, 0, 0, 0, 0]\n[0, 1, 2, 3, 4]\n2")
}

// Case 32: odd tools, every one callable.
func TestPythonOddTools(t *testing.T) {
	names := []string{"get-weather", "get_weather", "get.weather", "list", "class", "2nd", "_os", "__all__", "call", "ToolError", "set_result", "print", "json", "-", "import"}
	var tools []bridge.Tool
	for _, n := range names {
		tools = append(tools, tool(n, `{"type":"object"}`, func(_ context.Context, c bridge.Call) (json.RawMessage, error) {
			return json.Marshal(c.Tool)
		}))
	}
	odd := tool("odd", `{"type":"object","properties":{
	  "self":{"type":"string"},"from":{"type":"integer","description":"multi\nline \"\"\" \\ end\\"},"from_":{},"a-b":{"default":"x'\"\\"},"":{},"naïve":{},
	  "type":{"enum":["a","b'"],"default":"a"},"_sbx_more":{},"_O":{},"None":{},"lambda":{"type":["string","null"]},
	  "tree":{"$ref":"#/$defs/node"},"list":{"type":"array","items":{"type":"number"}}},
	  "required":["self","from","undeclared"],
	  "$defs":{"node":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`, echoArgs)
	odd.Description = "Ends with a quote \" and \\ and \"\"\"\nimport os; os._exit(3)\r\n\x00\u2028 é \U0001f600\\"
	s := serve(t, bridge.Config{MaxCalls: 1000}, append(tools, odd)...)
	s.wants(`
import sbx_tools, inspect
for n in sbx_tools.__all__[12:-1]:
    f = getattr(sbx_tools, n)
    print(n, f.tool_name == f(), f.tool_name)
    assert sbx_tools.call(f.tool_name) == f.tool_name
from sbx_tools import *
assert list((1,)) == [1] and print is __builtins__.print
f = sbx_tools.odd
print(f("s", 1, "u"))
print(f("s", 4, from_=5, undeclared=None))
print(f("s", undeclared=0, **{"from": 6, "from_": 7, "a-b": 1, "": 2, "naïve": 3, "None": 4, "lambda": None, "_sbx_more": 8, "_O": 9, "other": 10}))
print(f("s", 1, 2, type="b'", a_b=0, lambda_=None, tree={"kids": [{"kids": []}]}, list=[1.5]))
print(call("odd", **{"self": "x", "from": 1, "undeclared": 2}))
print(inspect.signature(f))
assert f.__doc__.startswith('Ends with a quote " and \\ and """\n'), f.__doc__
import promptise_tools
assert all(getattr(promptise_tools, n) is getattr(sbx_tools, n) for n in sbx_tools.__all__) and promptise_tools.__all__ is sbx_tools.__all__
ns = {}
exec("from promptise_tools import *", ns)
assert ns["odd"] is f
try: f("s", undeclared=1)
except TypeError as e: print(e)
`, `
get_weather True get-weather
get_weather_ True get_weather
get_weather_2 True get.weather
list_ True list
class_ True class
tool_2nd True 2nd
tool_os True _os
tool__all__ True __all__
call_ True call
ToolError_ True ToolError
set_result_ True set_result
print_ True print
json True json
tool True -
import_ True import
{'self': 's', 'from': 1, 'undeclared': 'u'}
{'self': 's', 'from': 4, 'undeclared': None, 'from_': 5}
{'self': 's', 'from': 6, 'undeclared': 0, 'from_': 7, 'a-b': 1, '': 2, 'naïve': 3, '_sbx_more': 8, '_O': 9, 'None': 4, 'lambda': None, 'other': 10}
{'self': 's', 'from': 1, 'undeclared': 2, 'a-b': 0, 'type': "b'", 'lambda': None, 'tree': {'kids': [{'kids': []}]}, 'list': [1.5]}
{'self': 'x', 'from': 1, 'undeclared': 2}
(self: 'str', from_2: 'int', undeclared: 'Any', *, from_: 'Any' = <omitted>, a_b: 'Any' = 'x\'"\\', arg: 'Any' = <omitted>, na__ve: 'Any' = <omitted>, type: 'Literal[\'a\', "b\'"]' = 'a', arg_sbx_more: 'Any' = <omitted>, _O: 'Any' = <omitted>, None_: 'Any' = <omitted>, lambda_: 'str | None' = <omitted>, tree: 'dict[str, Any]' = <omitted>, list: 'list[float]' = <omitted>, **_sbx_more: 'Any') -> 'Any'
odd() missing 1 required positional argument: 'from_2'
`)
}

func TestPythonResult(t *testing.T) {
	s := serve(t, bridge.Config{}, echo())
	if got, err := s.srv.Result(); got != nil || err != nil {
		t.Fatalf("no result: %s %v", got, err)
	}
	s.wants(`
from sbx_tools import *
set_result({"a": 1}); set_result([2**53+1, float("nan"), "\ud800"])
try: set_result("x" * (9 << 20))
except ResultTooLarge: print("too large")
try: echo(1)
except BudgetExceeded: print("no budget")`, "too large\nno budget")
	s.srv.Close()
	got, err := s.srv.Result()
	if string(got) != `[9007199254740993,{"$sbx":"float","v":"nan"},"\ud800"]` || err != nil {
		t.Fatalf("%s %v", got, err)
	}
}

func TestPythonWithoutABridge(t *testing.T) {
	s := serve(t, bridge.Config{}, echo())
	s.wants(`
import sbx_tools
sbx_tools._REQ = "/nonexistent/req/"
try: sbx_tools.echo(1)
except sbx_tools.BridgeClosed as e: print(e.code)`, "closed")
}

// Import must be cheap: most programs of a sandbox live for milliseconds. It
// must load nothing that a bare interpreter has not loaded but __future__.
func TestPythonImportIsLean(t *testing.T) {
	s := serve(t, bridge.Config{}, echo())
	s.wants(`
import time
before = set(sys.modules)
import sbx_tools
print(sorted(set(sys.modules) - before - {"errno"}))`, "['__future__', 'sbx_tools']")
}

func TestFilesAreDeterministic(t *testing.T) {
	var first []stubs.File
	for range 5 {
		set, err := bridge.NewSet([]bridge.Tool{echo(), tool("b", `{"type":"object","properties":{"z":{},"a":{},"m":{}}}`, echoArgs)})
		if err != nil {
			t.Fatal(err)
		}
		files, err := stubs.Files(set)
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if !bytes.Equal(first[i].Data, files[i].Data) || first[i].Path != files[i].Path {
				t.Fatalf("%s differs", files[i].Path)
			}
		}
		first = files
	}
}

func TestBrokenSchemaIsRefusedByName(t *testing.T) {
	_, err := bridge.NewSet([]bridge.Tool{echo(), tool("bad", `{"type":"object","properties":{"a":{"type":"strin"}}}`, echoArgs)})
	if err == nil || !strings.Contains(err.Error(), `"bad"`) || errors.Unwrap(err) == nil {
		t.Fatalf("got %v", err)
	}
}
