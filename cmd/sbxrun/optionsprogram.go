package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

// programOptions are about the program's own view: environment, identity,
// standard input.
func programOptions(p *runtime.Policy) []*option {
	return []*option{
		pairOption("env", "NAME=VALUE", "variable of the program; the environment starts nearly empty", &p.Env,
			"NAME=VALUE", `nothing of the caller's environment is passed on its own: write --env NAME="$NAME"`),
		{
			name: "cwd", arg: "DIR", usage: "working directory inside",
			allowed: "an absolute path inside the sandbox",
			set: func(_ *request, v value) error {
				if err := values.NoNUL(v.text); err != nil {
					return err
				}
				if !path.IsAbs(v.text) {
					return values.Bad(values.Quote(v.text) + " is not an absolute path")
				}
				p.Cwd = path.Clean(v.text)
				return nil
			},
			show: func(*request) []string { return []string{p.Cwd} },
		},
		{
			name: "user", arg: "UID[:GID]", usage: "the program's ids inside, never 0",
			allowed: "UID or UID:GID, numbers from 1 to " + strconv.FormatUint(values.MaxID, 10),
			set: func(_ *request, v value) error {
				uid, gid, err := values.User(v.text)
				if err == nil {
					p.UID, p.GID = uid, gid
				}
				return err
			},
			show: func(*request) []string { return []string{fmt.Sprintf("%d:%d", p.UID, p.GID)} },
		},
		{
			name: "hostname", arg: "NAME", usage: "host name inside",
			allowed: "1 to 63 letters, digits and hyphens",
			set: func(_ *request, v value) error {
				if err := values.Hostname(v.text); err != nil {
					return err
				}
				p.Hostname = v.text
				return nil
			},
			show: func(*request) []string { return []string{p.Hostname} },
		},
		switchOption("stdin", "pass standard input, which must not be a folder, on to the program; else it reads nothing",
			func(r *request, on bool) error { r.stdin = on; return nil },
			func(r *request) bool { return r.stdin }),
		switchOption("tty", "not in this version", func(_ *request, on bool) error {
			if !on {
				return nil
			}
			return notInThisVersion("a terminal inside", "leave --tty out; --stdin passes standard input")
		}, nil),
	}
}

// channelOptions are the ways out of the sandbox, and what enforces that there
// are no others.
func channelOptions(p *runtime.Policy) []*option {
	return []*option{
		{
			name: "net", arg: "none", usage: "network: loopback only",
			allowed: "none",
			set: func(_ *request, v value) error {
				switch v.text {
				case string(runtime.NetworkNone):
					p.Network = runtime.NetworkNone
					return nil
				case "restricted", "full":
					return notInThisVersion("network "+strconv.Quote(v.text),
						"use --net none and offer what the program needs as a tool (--tool, --tools)")
				}
				return notOneOf(v.text)
			},
			show: func(*request) []string { return []string{string(p.Network)} },
		},
		{
			name: "allow", arg: "HOST[:PORT]", many: true, usage: "not in this version: it needs --net restricted",
			set: func(*request, value) error {
				return notInThisVersion("network \"restricted\", which this flag needs,",
					"leave --allow out and offer what the program needs as a tool (--tool, --tools)")
			},
		},
		toolsOption(), toolOption(),
		{
			name: "max-tool-calls", arg: "N", usage: "tool calls in the run; 0 allows none",
			allowed: "0 (no call at all) to " + strconv.Itoa(mostToolCalls) + ", such as 50",
			set: func(_ *request, v value) error {
				n, err := values.Count(v.text, 0, mostToolCalls)
				if err == nil {
					p.Bridge.MaxCalls = int(n)
				}
				return err
			},
			show: func(*request) []string { return []string{strconv.Itoa(p.Bridge.MaxCalls)} },
		},
		durationOption("tool-timeout", "time of each tool call", &p.Bridge.ToolTimeout, "30s"),
		{
			name: "tool-concurrency", arg: "N", usage: "tool calls at once",
			allowed: "1 to " + strconv.Itoa(mostConcurrency) + ", such as 8",
			set: func(_ *request, v value) error {
				n, err := values.Count(v.text, 1, mostConcurrency)
				if err == nil {
					p.Bridge.Concurrency = int(n)
				}
				return err
			},
			show: func(*request) []string { return []string{strconv.Itoa(p.Bridge.Concurrency)} },
		},
		knownWordOption("seccomp", "default", "system call policy", "default",
			func(r *request) *string { return &r.seccomp }, func(text string) error {
				if strings.Contains(text, "/") || strings.HasSuffix(text, ".json") {
					return notInThisVersion("a system call policy of your own", "use --seccomp default")
				}
				return nil
			}),
		knownWordOption("isolation", "native", "what the sandbox is built from", "native",
			func(r *request) *string { return &r.isolated }, func(text string) error {
				if text == "gvisor" {
					return notInThisVersion(`isolation "gvisor"`, "use --isolation native")
				}
				return nil
			}),
	}
}

// notInThisVersion refuses a control that the design knows and this version
// does not build: refusing is the only alternative to being silently weaker.
func notInThisVersion(what, hint string) error {
	return &errdef.Error{Code: errdef.Unsupported, Msg: what + " is not in this version", Hint: hint}
}

// knownWordOption takes one word; refuse words the refusal of known others.
func knownWordOption(name, arg, usage, only string, to func(*request) *string, refuse func(string) error) *option {
	return &option{
		name: name, arg: arg, usage: usage, allowed: only,
		set: func(r *request, v value) error {
			if v.text == only {
				*to(r) = v.text
				return nil
			}
			if err := refuse(v.text); err != nil {
				return err
			}
			return notOneOf(v.text)
		},
		show: func(r *request) []string { return []string{*to(r)} },
	}
}

// switchOption is on or off; show may be nil where it can only be off.
func switchOption(name, usage string, set func(*request, bool) error, show func(*request) bool) *option {
	o := &option{
		name: name, usage: usage, allowed: "true, false",
		set: func(r *request, v value) error {
			switch v.text {
			case "true", "false":
				return set(r, v.text == "true")
			}
			return notOneOf(v.text)
		},
	}
	if show != nil {
		o.show = func(r *request) []string { return []string{strconv.FormatBool(show(r))} }
	}
	return o
}

// pairOption collects NAME=VALUE pairs, the last of a name wins.
func pairOption(name, arg, usage string, to *map[string]string, allowed, hint string) *option {
	return &option{
		name: name, arg: arg, usage: usage, many: true, object: true, allowed: allowed, hint: hint,
		set: func(_ *request, v value) error {
			key, text, err := values.Pair(v.text)
			if err != nil {
				return err
			}
			if *to == nil {
				*to = map[string]string{}
			}
			(*to)[key] = text
			return nil
		},
		show: func(*request) []string {
			var pairs []string
			for _, k := range slices.Sorted(maps.Keys(*to)) {
				pairs = append(pairs, k+"="+(*to)[k])
			}
			return pairs
		},
	}
}
