package stubs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/stubs"
)

// A call whose reply is lost ends by itself, in the blocking and the async form.
func TestPythonFinalDeadline(t *testing.T) {
	hang := tool("hang", `{"type":"object"}`, func(ctx context.Context, _ bridge.Call) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	hang.Timeout = time.Hour
	s := serve(t, bridge.Config{MaxCalls: 10}, hang, echo())
	s.wants(`
import asyncio, time
import sbx_tools
from sbx_tools import *
print(sbx_tools._FINAL)
sbx_tools._FINAL = 0.3
for f in (hang, lambda: asyncio.run(hang.aio())):
    t = time.monotonic()
    try: f()
    except ToolTimeout as e: print(e.tool, e.code, time.monotonic() - t < 2)
print(echo(1))`, "7200.0\nhang timeout True\nhang timeout True\n1")
}

// hostileNames are all that Python itself gives a meaning to.
func hostileNames(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("/usr/bin/python3", "-I", "-c", `
import builtins, keyword, types, json
names = set(dir(builtins)) | set(keyword.kwlist) | set(getattr(keyword, "softkwlist", [])) | set(dir(object)) | set(dir(types.ModuleType))
names |= set(dir(types.FunctionType)) | set(dir(type)) | {"__debug__", "__path__", "__all__", "__file__", "__builtins__", "__getattr__", "self", "cls", "args", "kwargs", "a", "k"}
print(json.dumps(sorted(names)))`).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal(out, &names); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"_O", "_tool", "_sbx_more", "_sbx", "_os", "_RAW", "_call", "_FINAL", "Any", "annotations", "aio", "options", "call", "set_result"} {
		names = append(names, n, n+"_x", n+"__x")
	}
	return names
}

// Whatever tools and arguments are called, the module compiles, every tool can be
// called by its own name, and every argument arrives.
func TestPythonHostileNames(t *testing.T) {
	names := hostileNames(t)
	odd := []string{"", " ", "a b", "1", "1a", "é", "\u00aa", "ﬁ", "\u2028", "a\nb", `"""`, `\`, "'", "#", "$sbx ", "a-b", "a_b", "a.b", "\U0001f600", "__", "___", "\x00", "lambda:0", "*", "**k", "/"}
	props := map[string]any{}
	var required []string
	for i, n := range append(names, odd...) {
		props[n] = map[string]any{"description": n, "default": n, "enum": []string{n}}
		if i%2 == 0 {
			required = append(required, n)
		}
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": required})
	if err != nil {
		t.Fatal(err)
	}
	tools := []bridge.Tool{tool("all-args", string(schema), echoArgs), tool("all_args", string(schema), echoArgs), echo()}
	seen := map[string]bool{"echo": true}
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			x := tool(n, `{"type":"object"}`, func(_ context.Context, c bridge.Call) (json.RawMessage, error) { return json.Marshal(c.Tool) })
			x.Description = n + "\"\"\" \\ ''' \u2028\n\x00"
			tools = append(tools, x)
		}
	}
	s := serve(t, bridge.Config{MaxCalls: 10000}, tools...)
	s.wants(`
import sbx_tools, inspect, keyword
compile(open(sbx_tools.__file__).read(), "sbx_tools.py", "exec", dont_inherit=True)
args = {n: n for n in sbx_tools.describe("all-args")["inputSchema"]["properties"]}
names = list(inspect.signature(sbx_tools.all_args.__wrapped__).parameters)[:-1]
assert len(names) == len(set(names)) == len(args), len(names)
assert not any(keyword.iskeyword(n) or not n.isidentifier() for n in names)
assert sbx_tools.call("all-args", **args) == args
assert sbx_tools.all_args(**args) == args
for t in sbx_tools.list_tools():
    n = t["name"]
    if n not in ("all-args", "all_args", "echo"):
        assert sbx_tools.call(n) == n, n
exported = list(sbx_tools.__all__)
assert len(exported) == len(set(exported)) and all(callable(getattr(sbx_tools, n)) for n in exported)
print(sbx_tools.echo(1), len(exported) > 200)`, "1 True")
}

// Schemas that refer to themselves over and over cost a bounded time, and so do
// names that all become the same.
func TestStubsOfBranchingSchemasAreFast(t *testing.T) {
	list := func(n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ",")
	}
	levels := list(8, func(i int) string {
		return fmt.Sprintf(`"l%d":{"anyOf":[%s]}`, i, list(40, func(int) string { return fmt.Sprintf(`{"type":"array","items":{"$ref":"#/$defs/l%d"}}`, i+1) }))
	})
	refs := list(60, func(int) string { return `{"type":"object","additionalProperties":{"$ref":"#/$defs/a"}}` })
	var tools []bridge.Tool
	for i, in := range []string{
		`{"type":"object","properties":{"p":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[` + refs + `]}}}`,
		`{"type":"object","properties":{"p":{"$ref":"#/$defs/l0"}},"$defs":{` + levels + `,"l8":{"type":"string"}}}`,
		`{"type":"object","properties":{` + list(20_000, func(i int) string { return fmt.Sprintf(`"a%s%d":{"$ref":"#"}`, strings.Repeat("-", i%3+1), i) }) + `}}`,
		`{"type":"object","properties":{` + list(20_000, func(i int) string { return fmt.Sprintf(`"%c":{}`, rune(0x4e00+i)) }) + `}}`,
	} {
		tools = append(tools, tool(fmt.Sprintf("t%d", i), in, echoArgs))
	}
	set, err := bridge.NewSet(tools)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := stubs.Files(set); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	t.Logf("took %s", time.Since(begin))
}
