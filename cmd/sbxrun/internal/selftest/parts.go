package selftest

import (
	"context"
	"fmt"
	"os"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"
	"github.com/sbxrun/sbxrun/runtime"
)

// missing is what a probe that did not report is judged by.
const missing = "no finding"

// escape runs everything that must be denied, and the tool call.
func (t *tester) escape(ctx context.Context) error {
	set, err := t.tools()
	if err != nil {
		return err
	}
	found, res, _, err := t.run(ctx, probe.PartEscape, func(p *runtime.Policy) { p.Bridge.Tools = set })
	if err != nil {
		return err
	}
	for _, e := range escapes {
		got, ok := found[e.name]
		if !ok {
			got = missing
		}
		t.judge(e.name, got, e.of(os.Geteuid()))
	}
	for _, v := range t.outside.verdicts(os.Geteuid(), os.Getegid()) {
		t.judge(v.Name, v.Got, v.Expected)
	}
	got, ok := found["tool-call"]
	if !ok {
		got = missing
	}
	t.judge("tool-call", got, answerPrefix+t.config.Nonce)
	t.judge("tool-calls-counted", fmt.Sprint(res.ToolCalls.ByCode["ok"]), "1")
	t.judge("network-denials-counted", atLeast(res.NetworkDenials, outsideAttempts), counted)
	t.judge("escape-ending", ending(res), "exited 0")
	return nil
}

// outsideAttempts is how many packets the probe sends to outside addresses over
// protocols that every kernel has: one each over TCP and UDP.
const outsideAttempts = 2

const counted = "counted"

func atLeast(n, least uint64) string {
	if n >= least {
		return counted
	}
	return fmt.Sprintf("%d of %d", n, least)
}

func ending(res *runtime.Result) string {
	switch {
	case res.Signal != nil:
		return fmt.Sprintf("%s, signal %d", res.Reason, *res.Signal)
	case res.ExitCode != nil:
		return fmt.Sprintf("%s %d", res.Reason, *res.ExitCode)
	}
	return string(res.Reason)
}

func (t *tester) fork(ctx context.Context) error {
	found, res, _, err := t.run(ctx, probe.PartFork, func(p *runtime.Policy) { p.Limits.Pids = pids })
	if err != nil {
		return err
	}
	got, ok := found["fork-limit"]
	if !ok {
		got = missing
	}
	t.judge("fork-limit", got, "EAGAIN")
	t.judge("fork-limit-reported", string(res.Reason), string(runtime.ReasonPidsLimit))
	return nil
}

func (t *tester) memory(ctx context.Context) error {
	found, res, _, err := t.run(ctx, probe.PartMemory, func(p *runtime.Policy) {
		p.Limits.SetMemory(smallMemory)
		p.Limits.WorkspaceBytes = smallMemory / 2
	})
	if err != nil {
		return err
	}
	t.judge("memory-limit", silent(found, "memory-limit"), probe.None)
	t.judge("memory-limit-reported", string(res.Reason), string(runtime.ReasonOOM))
	return nil
}

func (t *tester) sleep(ctx context.Context) error {
	found, res, _, err := t.run(ctx, probe.PartSleep, func(p *runtime.Policy) { p.Limits.Timeout = shortTime })
	if err != nil {
		return err
	}
	t.judge("time-limit", silent(found, "time-limit"), probe.None)
	t.judge("time-limit-reported", string(res.Reason), string(runtime.ReasonTimeout))
	return nil
}

func (t *tester) output(ctx context.Context) error {
	_, res, out, err := t.run(ctx, probe.PartOutput, func(p *runtime.Policy) { p.Limits.OutputBytes = outputBytes })
	if err != nil {
		return err
	}
	t.judge("output-limit", fmt.Sprintf("%d bytes", len(out)), fmt.Sprintf("%d bytes", outputBytes))
	t.judge("output-limit-reported", fmt.Sprintf("truncated %t", res.Output.Truncated), "truncated true")
	return nil
}

// silent is the finding of a probe that must not come to report one.
func silent(found map[string]string, name string) string {
	if got, ok := found[name]; ok {
		return got
	}
	return probe.None
}
