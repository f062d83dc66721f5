package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

// script writes an executable and returns its path.
func script(t testing.TB, dir, name, body string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func toolsFile(t testing.TB, dir, text string) string {
	t.Helper()
	p := filepath.Join(dir, "tools.json")
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestToolsFile(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "w.sh", "cat")
	set, err := LoadToolsFile(toolsFile(t, dir, `{"tools":[
	 {"name":"get-weather","description":"d","inputSchema":{"type":"object","properties":{"z":{},"a":{}}},"outputSchema":{"type":"string"},
	  "command":["./w.sh","--json"],"timeout":"10s","maxCalls":3,"concurrency":2,"env":{"K":"v"}},
	 {"name":"bare","inputSchema":{"type":"object"},"command":["w.sh"]},
	 {"name":"path","inputSchema":{"type":"object"},"command":["cat"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	w := set.Tools()[0]
	if w.Timeout != 10*time.Second || w.MaxCalls != 3 || w.Concurrency != 2 {
		t.Errorf("tool %+v", w)
	}
	if want := `{"v":1,"tools":[{"name":"get-weather","description":"d","inputSchema":{"type":"object","properties":{"z":{},"a":{}}},"outputSchema":{"type":"string"}},` +
		`{"name":"bare","inputSchema":{"type":"object"}},{"name":"path","inputSchema":{"type":"object"}}]}` + "\n"; string(set.JSON()) != want {
		t.Errorf("tools.json %s", set.JSON())
	}
	for i, c := range set.Tools() {
		out, err := c.Handler.Call(t.Context(), Call{Args: json.RawMessage(`{"a":9007199254740993}`)})
		if string(out) != `{"a":9007199254740993}` || err != nil {
			t.Errorf("%d: %s %v", i, out, err)
		}
	}
}

func TestToolsFileRefusals(t *testing.T) {
	dir := t.TempDir()
	const ok = `"name":"a","inputSchema":{"type":"object"},"command":["cat"]`
	for text, want := range map[string]string{
		``:                               "unexpected end",
		`[]`:                             "must be an object",
		`{}`:                             `"tools"`,
		`{"tools":null}`:                 `"tools"`,
		`{"tools":[],"tool":[]}`:         `unknown field "tool"`,
		`{"Tools":[]}`:                   `unknown field "Tools"`,
		`{"tools":[]} {}`:                "text after",
		`{"tools":[],"tools":[]}`:        "duplicate key",
		`{"tools":[{` + ok + `,"x":1}]}`: `tools[0]: unknown field "x"`,
		`{"tools":[{` + ok + `,"Timeout":"1s"}]}`:                                                                                        `unknown field "Timeout"`,
		`{"tools":[{` + ok + `},{` + ok + `}]}`:                                                                                          `"a": the name is there twice`,
		`{"tools":[{` + ok + `,"timeout":"soon"}]}`:                                                                                      `tool "a": field "timeout"`,
		`{"tools":[{` + ok + `,"timeout":"-1s"}]}`:                                                                                       `field "timeout"`,
		`{"tools":[{` + ok + `,"timeout":10}]}`:                                                                                          `field "timeout"`,
		`{"tools":[{` + ok + `,"maxCalls":0}]}`:                                                                                          `field "maxCalls"`,
		`{"tools":[{` + ok + `,"maxCalls":1.5}]}`:                                                                                        `field "maxCalls"`,
		`{"tools":[{` + ok + `,"concurrency":-1}]}`:                                                                                      `field "concurrency"`,
		`{"tools":[{` + ok + `,"env":{"A=B":"c"}}]}`:                                                                                     `env`,
		`{"tools":[{` + ok + `,"env":null}]}`:                                                                                            `field "env"`,
		`{"tools":[{"name":"b","command":["cat"]}]}`:                                                                                     `tool "b": field "inputSchema"`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}`:                                                                       `tool "b": field "command"`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object"},"command":["./nope"]}]}`:                                                  `"./nope": not found`,
		`{"tools":[{"name":"b c","inputSchema":{"type":"object"},"command":["cat"]}]}`:                                                   `"b c": bad name`,
		`{"tools":[{"inputSchema":{"type":"object"},"command":["cat"]}]}`:                                                                `bad name`,
		`{"tools":[{"name":"b","inputSchema":{"type":"array"},"command":["cat"]}]}`:                                                      `tool "b": broken inputSchema`,
		`{"tools":[{"name":"b","inputSchema":true,"command":["cat"]}]}`:                                                                  `tool "b": broken inputSchema`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object","properties":[]},"command":["cat"]}]}`:                                     `tool "b": broken inputSchema`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object","properties":{"x":{"pattern":"("}}},"command":["cat"]}]}`:                  `tool "b": broken inputSchema`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/no"}}},"command":["cat"]}]}`:                  `tool "b": broken inputSchema`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object","$schema":"http://json-schema.org/draft-04/schema#"},"command":["cat"]}]}`: `$schema`,
		`{"tools":[{"name":"b","inputSchema":{"type":"object"},"outputSchema":{"type":"x"},"command":["cat"]}]}`:                         `tool "b": broken outputSchema`,
	} {
		set, err := LoadToolsFile(toolsFile(t, dir, text))
		if set != nil || !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v, want %s", text, err, want)
		}
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, maxToolsFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadToolsFile(big); !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), "16777217 bytes, at most 16777216") {
		t.Errorf("big: %v", err)
	}
	if _, err := LoadToolsFile(filepath.Join(dir, "absent")); !errdef.Is(err, errdef.NotFound) {
		t.Errorf("absent: %v", err)
	}
	if _, err := LoadToolsFile(toolsFile(t, dir, `{"tools":[{`+ok+`}]}`)); err != nil {
		t.Errorf("control: %v", err)
	}
}

func command1(t testing.TB, body string, env map[string]string) Handler {
	t.Helper()
	h, err := Command([]string{script(t, t.TempDir(), "tool", body)}, env)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCommand(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	for _, c := range []struct{ body, out, fail string }{
		{`cat`, `{"a":1}`, ""},
		{`echo 5; exit 0`, `5`, ""},
		{`echo "{\"n\":$#,\"wd\":\"$PWD\"}"`, `{"n":0,"wd":"/"}`, ""},
		{`env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= | sort | tr '\n' ' ' | sed 's/.*/"&"/'`,
			`"K=v LANG=C.UTF-8 ` + commandPath + ` "`, ""},
		{`echo 'one' >&2; echo ' last line ' >&2; echo >&2; exit 3`, "", "ToolError: last line"},
		{`exit 4`, "", "ToolError: the tool ended with exit status 4"},
		{`kill -9 $$`, "", "ToolError: the tool ended with signal: killed"},
		{`echo not json`, "", "not one JSON value"},
		{`echo 1 2`, "", "not one JSON value"},
		{`true`, "", "not one JSON value"},
		{`echo NaN`, "", "not one JSON value"},
		{`ls -l /proc/self/fd | grep -c -e / -e : | sed 's/$//'`, "", ""},
	} {
		out, err := command1(t, c.body, map[string]string{"K": "v"}).Call(t.Context(), Call{Args: json.RawMessage(`{"a":1}`)})
		switch {
		case c.fail != "":
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: got %s, %v", c.body, out, err)
			}
		case err != nil || c.out != "" && string(out) != c.out:
			t.Errorf("%s: got %s, %v", c.body, out, err)
		}
	}
}

// A tool's whole session dies at its deadline, and what it leaves behind when it
// ends. The positive control is the pid file that shows the child was there.
func TestCommandIsKilledWhole(t *testing.T) {
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	h := command1(t, `sleep 100 & echo $! > `+pid+`; wait`, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := h.Call(ctx, Call{Args: json.RawMessage(`{}`)})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > time.Second {
		t.Errorf("got %v after %s", err, time.Since(begin))
	}
	dead(t, pid)
	h = command1(t, `sleep 100 >/dev/null 2>&1 & echo $! > `+pid+`; echo 1`, nil)
	if out, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{}`)}); string(out) != "1" || err != nil {
		t.Errorf("got %s %v", out, err)
	}
	dead(t, pid)
}

// Output is whole or the call fails: bursts at the very end on a busy host, and
// processes that left the group and hold the pipe.
func TestCommandOutputIsWhole(t *testing.T) {
	var busy sync.WaitGroup
	var stop atomic.Bool
	for range 4 * runtime.NumCPU() { // starve the goroutines that read
		busy.Go(func() {
			for !stop.Load() {
				runtime.Gosched()
			}
		})
	}
	h := command1(t, `printf '"'; head -c 60000 /dev/zero | tr '\0' x; printf '"'`, nil)
	var calls sync.WaitGroup
	for range 40 {
		calls.Go(func() {
			out, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{}`)})
			if len(out) != 60002 || err != nil {
				t.Errorf("got %d bytes, %v", len(out), err)
			}
		})
	}
	calls.Wait()
	stop.Store(true)
	busy.Wait()
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	for body, want := range map[string]string{
		`setsid sleep 3 & echo $! > ` + pid + `; sleep 0.2; echo 2`:                          "holds its output",
		`setsid sh -c 'while :; do echo 7; done' & echo $! > ` + pid + `; sleep 0.2; echo 2`: "",
		`setsid sh -c 'sleep 0.5; echo 3' & echo $! > ` + pid + `; sleep 0.2; echo 2`:        "not one JSON value",
		`setsid sleep 3 >/dev/null & echo $! > ` + pid + `; sleep 0.2; echo 2`:               "ok 2",
		`setsid sleep 3 >/dev/null & echo $! > ` + pid + `; sleep 0.2; echo bad >&2; exit 1`: "bad",
		`setsid sleep 3 >/dev/null 2>&1 & echo $! > ` + pid + `; sleep 0.2; echo '{"a":1}'`:  `ok {"a":1}`,
		`(sleep 0.1; echo 5) & echo $! > ` + pid + `; printf '"ab'`:                          "not one JSON value",
	} {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, err := command1(t, body, nil).Call(ctx, Call{Args: json.RawMessage(`{"v":"` + strings.Repeat("x", 200000) + `"}`)})
		cancel()
		if ok, isOK := strings.CutPrefix(want, "ok "); isOK && (string(out) != ok || err != nil) || !isOK && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %s, %v", body, out, err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("%s: took %s", body, took)
		}
		if raw, err := os.ReadFile(pid); err == nil { // what escaped is ours to end
			if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
}

// A tool dies with the host process, even by SIGKILL, and not with the thread of
// the host that happened to start it.
func TestCommandDiesWithTheHost(t *testing.T) {
	const env = "SBX_BRIDGE_TEST_HOST"
	if pid := os.Getenv(env); pid != "" {
		h := command1(t, `echo $$ > `+pid+`; exec sleep 100`, nil)
		_, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{}`)})
		t.Fatal("the tool ended:", err)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	host.Env = append(os.Environ(), env+"="+pid)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tool runs", func() bool { raw, err := os.ReadFile(pid); return err == nil && len(raw) > 1 })
	if raw, _ := os.ReadFile(pid); syscall.Kill(number(t, raw), 0) != nil {
		t.Error("the tool does not run") // positive control
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	dead(t, pid)
	// Threads come and go while a tool runs.
	h := command1(t, `sleep 0.5; echo 1`, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			runtime.LockOSThread() // the thread ends with this goroutine
			if out, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{}`)}); string(out) != "1" || err != nil {
				t.Errorf("got %s %v", out, err)
			}
		})
		wg.Go(func() {
			done := make(chan struct{})
			go func() { runtime.LockOSThread(); close(done) }()
			<-done
		})
	}
	wg.Wait()
}

// What a tool says is made harmless: invalid UTF-8 is no result, and an error
// cannot turn a line around or forge one.
func TestCommandTexts(t *testing.T) {
	for body, want := range map[string]string{
		`printf '"a\377b"'`: "UTF-8",
		`printf 'x\n\342\200\256evil\342\200\250line\033[31m\n' >&2; exit 1`: " evil line [31m",
	} {
		out, err := command1(t, body, nil).Call(t.Context(), Call{Args: json.RawMessage(`{}`)})
		if err == nil || !strings.HasSuffix(err.Error(), want) && !strings.Contains(err.Error(), want+" ") && !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: got %s %v", body, out, err)
		}
	}
	te := &ToolError{Type: "A\u202e", Message: "b\u2028c\u2066\x00\nd", Hint: "\u200fe"}
	if body := string(te.body("x")); body != `{"v":1,"id":"x","error":"A : b c  \nd","code":"tool_error","type":"A ","hint":" e"}` {
		t.Errorf("got %s", body)
	}
}

func number(t *testing.T, raw []byte) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func dead(t *testing.T, pidfile string) {
	t.Helper()
	raw, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	n := number(t, raw)
	eventually(t, "the child is dead", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) || err == nil && bytes.Contains(stat, []byte(") Z "))
	})
}

// 1 GiB of output is cut off at the cap, in little memory and time.
func TestCommandOutputIsCapped(t *testing.T) {
	h := command1(t, `head -c 1073741824 /dev/zero`, nil)
	begin := time.Now()
	_, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{}`)})
	var te *ToolError
	if !errors.As(err, &te) || te.Code != TooLarge || time.Since(begin) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begin))
	}
	h = command1(t, `head -c 104857600 /dev/zero >&2; echo end >&2; exit 1`, nil)
	if _, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{}`)}); err == nil || !strings.HasSuffix(err.Error(), "end") {
		t.Errorf("stderr: %v", err)
	}
	// A large argument that the tool never reads.
	h = command1(t, `echo 1`, nil)
	if out, err := h.Call(t.Context(), Call{Args: json.RawMessage(`{"v":"` + strings.Repeat("x", 900000) + `"}`)}); string(out) != "1" || err != nil {
		t.Errorf("unread input: %s %v", out, err)
	}
}
