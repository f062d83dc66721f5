package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/runtime"
)

// explainText returns the explanation for people: one line a fact.
func explainText(r *request, ex *runtime.Explanation) string {
	w := &report{}
	p := &r.policy
	w.section("program")
	w.line("command", values.JoinWords(p.Args))
	w.line("directory", p.Cwd)
	w.line("user", fmt.Sprintf("%d:%d, no capability, no way to gain one", p.UID, p.GID))
	w.line("host name", p.Hostname)
	w.line("standard input", map[bool]string{true: "the caller's, through a pipe", false: "/dev/null"}[r.stdin])

	w.section("limits")
	for _, o := range limitOptions(p) {
		w.line(o.name, o.show(r)[0])
	}

	w.section("mounts")
	if ex.Spec.Root != nil {
		w.line("/", "read-only: "+rootText(r))
	}
	for _, m := range ex.Spec.Mounts {
		w.line(m.Destination, mountText(m))
	}

	w.section("environment")
	if ex.Spec.Process != nil {
		for _, e := range ex.Spec.Process.Env {
			name, text, _ := strings.Cut(e, "=")
			w.line(name, values.JoinWords([]string{text}))
		}
	}

	w.section("network")
	w.line(string(p.Network), "loopback only; no route leads out, every attempt is counted")

	w.section("system calls")
	s := summarise(ex.Spec)
	w.line("otherwise", s.Default)
	for _, action := range slices.Sorted(maps.Keys(s.Calls)) {
		w.line(action, fmt.Sprintf("%d calls", s.Calls[action]))
	}

	explainFiles(w, p)
	explainToolLines(w, r)

	w.section("steps")
	for i, step := range ex.Steps {
		w.line(fmt.Sprintf("%d %s", i+1, step.Phase), strings.TrimSpace(step.Op+" "+step.Detail))
	}
	return w.String()
}

func explainFiles(w *report, p *runtime.Policy) {
	if len(p.Files)+len(p.Outputs) == 0 {
		return
	}
	w.section("files")
	for _, f := range p.Files {
		w.line("in", f.Source+" to "+f.Target)
	}
	for _, o := range p.Outputs {
		w.line("out", o.Path+" to "+o.Dest)
	}
}

func explainToolLines(w *report, r *request) {
	w.section("tools")
	b := r.policy.Bridge
	if b.Tools == nil {
		w.line("none", "no tool channel")
		return
	}
	w.line("calls", fmt.Sprintf("at most %d, %d at once, %s each", b.MaxCalls, b.Concurrency, values.FormatDuration(b.ToolTimeout)))
	for _, t := range explainTools(r) {
		first, _, _ := strings.Cut(t.Description, "\n")
		w.line(t.Name, first)
	}
}

func rootText(r *request) string {
	if r.policy.Rootfs.Dir == "" {
		return "the host's /usr and a minimal /etc"
	}
	return r.policy.Rootfs.Dir
}

func mountText(m specs.Mount) string {
	text := m.Type
	if m.Type == "" || m.Type == "bind" || m.Type == "none" {
		text = "from " + m.Source
	}
	if len(m.Options) > 0 {
		text += " " + strings.Join(m.Options, ",")
	}
	return text
}

// report is text in sections of two columns.
type report struct{ strings.Builder }

// reportColumn is where the second column starts; longer names push it out.
const reportColumn = 22

func (w *report) section(name string) {
	if w.Len() > 0 {
		w.WriteString("\n")
	}
	w.WriteString(name + "\n")
}

// line adds one line; what a policy holds must not be able to add another.
func (w *report) line(name, text string) {
	line := fmt.Sprintf("  %-*s %s", reportColumn, name, text)
	w.WriteString(strings.TrimRight(strings.Map(visible, line), " ") + "\n")
}

func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}
