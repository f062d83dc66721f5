package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

func TestProfileAndFlags(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "in.txt"), "x")
	other := writeFile(t, filepath.Join(t.TempDir(), "other.txt"), "y")
	path := writeFile(t, filepath.Join(dir, "p.json"), `{
		"memory": "512M", "pids": 32, "cpus": 0.5, "timeout": "5s", "stdin": true, "net": "none",
		"env": {"A": "1", "B": "2"}, "label": ["run=7"], "file": ["in.txt"], "bind-ro": ["in.txt:/data/in.txt"],
		"tool": {"echo": "cat -u"}}`)
	r, err := build(given{"profile": {path}, "pids": {"16"}, "env": {"B=3", "C=4"}, "file": {other + ":in.txt"}}, []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	p := r.policy
	want := runtime.NewPolicy("true")
	want.Limits.Memory, want.Limits.Pids, want.Limits.CPUs, want.Limits.Timeout = 512<<20, 16, 0.5, 5*time.Second
	want.Env = map[string]string{"A": "1", "B": "3", "C": "4"}
	want.Labels = map[string]string{"run": "7"}
	want.Files = []runtime.File{{Source: other, Target: "/workspace/in.txt"}}
	want.Binds = []runtime.Bind{{Source: filepath.Join(dir, "in.txt"), Target: "/data/in.txt"}}
	tools := p.Bridge.Tools
	p.Bridge.Tools = nil
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if !r.stdin || tools == nil || len(tools.Tools()) != 1 {
		t.Errorf("stdin %t, tools %v", r.stdin, tools)
	}
}

func TestProfileErrorsNameKeyAndFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"memroy": "1G"}`:                 `p.json: unknown key "memroy"`,
		`{"Memory": "1G"}`:                 `p.json: unknown key "Memory"`,
		`{"--memory": "1G"}`:               `p.json: unknown key "--memory"`,
		`{"memory": "1G", "memory": "2G"}`: `p.json: key "memory" is given twice`,
		`{"env": {"A": "1", "A": "2"}}`:    `key "A" of "env" is given twice`,
		`{"memory": "unlimited"}`:          `p.json: memory: "unlimited" would mean no limit`,
		`{"memory": 0}`:                    `p.json: memory: "0" would mean no limit`,
		`{"memory": -1}`:                   `p.json: memory: "-1" is negative`,
		`{"memory": null}`:                 `"memory" takes text and numbers only`,
		`{"memory": true}`:                 `"memory" takes text and numbers only`,
		`{"memory": ["1G"]}`:               `"memory" takes text and numbers only`,
		`{"stdin": "true"}`:                `"stdin" must be true or false`,
		`{"file": "x"}`:                    `"file" must be a list of texts`,
		`{"file": {"a": "b"}}`:             `"file" must be a list of texts`,
		`{"env": "A=1"}`:                   `"env" must be an object of texts, or a list`,
		`{"env": {"A": ["x"]}}`:            `"env" takes text and numbers only`,
		`{"env": ["A"]}`:                   `p.json: env: "A" has no "="`,
		`{"env": {"A": "\u0000"}}`:         `holds a NUL byte`,
		`{"net": "full"}`:                  `p.json: net: network "full" is not in this version`,
		`{"tty": true}`:                    `p.json: tty: a terminal inside is not in this version`,
		`{"result": "x"}`:                  `key "result" is not for a profile`,
		`{"profile": "x"}`:                 `key "profile" is not for a profile`,
		`{"file": ["/nope"]}`:              `p.json: file: /nope: cannot be read`,
		`[]`:                               `p.json: not a JSON object`,
		`5`:                                `p.json: not a JSON object`,
		`null`:                             `p.json: not a JSON object`,
		``:                                 `p.json: the JSON text ends too early`,
		`{"memory": "1G"`:                  `p.json: the JSON text ends too early`,
		`{} {}`:                            `p.json: text after the object`,
		`{"memory": "1G",}`:                `p.json: invalid character`,
		`{memory: 1}`:                      `p.json: invalid character`,
		"{\"env\": {\"A\": \"\xff\"}}":     `p.json: not valid UTF-8`,
	} {
		t.Run(text, func(t *testing.T) {
			path := writeFile(t, filepath.Join(t.TempDir(), "p.json"), text)
			line := checkRefusal(t, runCommand(t, "do", "--profile", path, "--", "true"))
			if !strings.Contains(line, want) || !strings.Contains(line, "p.json") {
				t.Errorf("%q does not say %q", line, want)
			}
		})
	}
}

// TestProfileFromExplain holds the promise that the options that `explain`
// prints are a profile with the same effect.
func TestProfileFromExplain(t *testing.T) {
	before := given{"memory": {"128M"}, "env": {"A=b c"}, "tool": {"echo=cat -u 'x y'"}, "label": {"k=v"}, "stdin": {"true"}, "user": {"7:8"}}
	r1, err := build(before, []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	ex, err := runtime.Explain(r1.policy)
	if err != nil {
		t.Fatal(err)
	}
	one := explainJSON(r1, ex)
	path := filepath.Join(t.TempDir(), "p.json")
	writeFile(t, path, mustJSON(t, one.Options))
	r2, err := build(given{"profile": {path}}, []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one.Options, explainJSON(r2, ex).Options); diff != "" {
		t.Errorf("a second round differs (-first +second):\n%s", diff)
	}
}

func FuzzProfile(f *testing.F) {
	for _, s := range []string{`{}`, `{"memory":"1G"}`, `{"env":{"A":"1"}}`, `{"file":["a:b"]}`, `{"stdin":true}`, `[`, `{"a":`, `{"pids":1e3}`, `{"tool":{"x":"'"}}`} {
		f.Add([]byte(s))
	}
	options := options(newRequest(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseProfile(data, "p.json", "/", options)
		if err != nil {
			var typed *errdef.Error
			if !errors.As(err, &typed) || typed.Code != errdef.Invalid || !strings.HasPrefix(err.Error(), "p.json: ") {
				t.Fatalf("error has no type or file: %v", err)
			}
			return
		}
		for name, values := range p {
			o := optionNamed(options, name)
			if o == nil || o.runOnly || !o.many && len(values) != 1 {
				t.Fatalf("%q: %v", name, values)
			}
		}
	})
}
