// Package selftest runs the probe in fresh sandboxes and judges what it found.
//
// A sandbox passes only where every single attempt got the answer that the
// kernel gives to the control under test: a connection that failed because the
// host has no network either, or a write that failed for its file's owner, is
// not taken for isolation.
package selftest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"
	"github.com/sbxrun/sbxrun/runtime"
)

// Verdict is one line of the report.
type Verdict struct {
	Name     string `json:"name"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	OK       bool   `json:"ok"`
}

// Report is the outcome of a self-test.
type Report struct {
	OK     bool      `json:"ok"`
	Probes []Verdict `json:"probes"`
}

// The sizes of the sandboxes under test. The disk has to hold the probe, which
// is this binary; the rest is small so that running into it is quick.
const (
	workspaceBytes = 64 << 20
	memoryBytes    = 256 << 20 // of the sandbox that fills its disk
	smallMemory    = 128 << 20 // of the one that runs out of memory
	pids           = 32
	openFiles      = 128
	outputBytes    = 4 << 10
	shortTime      = 500 * time.Millisecond
	// longTime is far more than any part takes; a probe that hangs is a failure.
	longTime = 60 * time.Second
)

// Paths inside. The configuration's name ends in random letters, so that the host
// recognises the probe among its processes.
const (
	probePath    = "/workspace/sbxrun-probe"
	configPrefix = "/workspace/sbxrun-probe-"
)

// marker is a variable that only the host's environment has.
const marker = "SBXRUN_SELFTEST_MARKER"

// tester is one self-test under way.
type tester struct {
	host   *runtime.Host
	config probe.Config
	binary []byte
	report Report
	// outside is what the host saw of the probe while that called the tool.
	outside *outside
}

// Run probes sandboxes that a host with the options builds. An error means that
// there was nothing to judge.
func Run(ctx context.Context, opts runtime.Options) (*Report, error) {
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("the probe cannot be copied: %w", err)
	}
	t := &tester{binary: binary, outside: &outside{config: configPrefix + rand.Text()}}
	// Set before the launcher starts, so that whatever inherits too much inherits it.
	if err := os.Setenv(marker, rand.Text()); err != nil {
		return nil, err
	}
	defer os.Unsetenv(marker)
	canaries, err := openCanaries()
	if err != nil {
		return nil, err
	}
	defer canaries.close()
	if t.host, err = runtime.Open(opts); err != nil {
		return nil, err
	}
	defer t.host.Close()
	t.config = canaries.config()
	t.config.EnvMarker = marker + "="
	t.config.WorkspaceBytes, t.config.OpenFiles, t.config.Pids = workspaceBytes, openFiles, pids
	t.config.MemoryBytes, t.config.OutputBytes = smallMemory, outputBytes
	t.config.Tool, t.config.Nonce = toolName, rand.Text()

	t.judge("control-host-reaches-canaries", canaries.controls(), expectReached)
	if err := t.escape(ctx); err != nil {
		return nil, err
	}
	for _, line := range canaries.verdicts() {
		t.judge(line.Name, line.Got, line.Expected)
	}
	for _, part := range []func(context.Context) error{t.fork, t.memory, t.sleep, t.output} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	t.report.OK = true
	for _, v := range t.report.Probes {
		t.report.OK = t.report.OK && v.OK
	}
	return &t.report, nil
}

// judge adds a verdict; expected holds the accepted answers, "|" between them.
func (t *tester) judge(name, got, expected string) {
	t.report.Probes = append(t.report.Probes, Verdict{name, expected, got, accepts(expected, got)})
}

func accepts(expected, got string) bool {
	for e := range strings.SplitSeq(expected, "|") {
		if got == e {
			return true
		}
	}
	return false
}

// run runs one part of the probe and returns its findings.
func (t *tester) run(ctx context.Context, part string, adjust func(*runtime.Policy)) (findings map[string]string, res *runtime.Result, out string, err error) {
	config, err := json.Marshal(t.config)
	if err != nil {
		return nil, nil, "", err
	}
	p := runtime.NewPolicy(probePath, probe.Command, part, t.outside.config)
	p.Files = []runtime.File{
		{Data: t.binary, Target: probePath, Mode: 0o755},
		{Data: config, Target: t.outside.config, Mode: 0o644},
	}
	p.Limits.SetMemory(memoryBytes)
	p.Limits.WorkspaceBytes = workspaceBytes
	p.Limits.OpenFiles = openFiles
	p.Limits.Timeout = longTime
	adjust(&p)
	var stdout, stderr bytes.Buffer
	res, err = t.host.Run(ctx, p, runtime.RunOptions{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return nil, nil, "", err
	}
	t.judge(part+"-messages", firstLine(stderr.String()), probe.None)
	return parse(stdout.Bytes()), res, stdout.String(), nil
}

// parse reads the findings. What does not parse is left out, and is then missed
// by name.
func parse(out []byte) map[string]string {
	findings := map[string]string{}
	for line := range bytes.Lines(out) {
		var f probe.Finding
		if json.Unmarshal(line, &f) != nil || f.Name == "" {
			continue
		}
		if before, twice := findings[f.Name]; twice && before != f.Got {
			f.Got = "two answers"
		}
		findings[f.Name] = f.Got
	}
	return findings
}

func firstLine(s string) string {
	if s == "" {
		return probe.None
	}
	line, _, _ := strings.Cut(s, "\n")
	// Enough to recognise a crash; it may hold anything.
	return fmt.Sprintf("%.200q", line)
}

// toolName is the tool that the probe calls; it must work while all else fails.
const toolName = "selftest-echo"

// answerPrefix marks what went through the tool.
const answerPrefix = "answered "

func (t *tester) tools() (*bridge.Set, error) {
	// Not of package gofunc, whose schema library would slow every start down.
	tool := bridge.Tool{Name: toolName, Description: "Returns its text, marked.",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
		OutputSchema: json.RawMessage(`{"type":"string"}`),
		Handler: bridge.HandlerFunc(func(_ context.Context, c bridge.Call) (json.RawMessage, error) {
			var a struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(c.Args, &a); err != nil {
				return nil, err
			}
			t.outside.look()
			return json.Marshal(answerPrefix + a.Text)
		})}
	return bridge.NewSet([]bridge.Tool{tool})
}
