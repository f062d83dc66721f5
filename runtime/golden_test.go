package runtime

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxrun/sbxrun/bridge/stubs"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/runtime/plan"
	"github.com/sbxrun/sbxrun/seccomp"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// fixedView stands for a host whose /usr and /etc never change.
func fixedView() *rootfs.View {
	return &rootfs.View{
		Dirs:  []rootfs.Dir{{Path: "/proc", Mode: 0o555}, {Path: "/dev", Mode: 0o755}, {Path: "/usr", Mode: 0o755}, {Path: "/etc", Mode: 0o755}},
		Links: []rootfs.Link{{Target: "usr/bin", Path: "/bin"}},
		Files: []rootfs.File{{Path: "/dev/null", Mode: 0o444}, {Path: "/etc/hosts", Mode: 0o444, Data: "127.0.0.1 localhost\n"}},
		Binds: []rootfs.Bind{{Source: "/dev/null", Target: "/dev/null", Kind: rootfs.KindChar, Major: 1, Minor: 3},
			{Source: "/usr", Target: "/usr", Kind: rootfs.KindDir}},
	}
}

// planText is the ordered operations of a policy, as `explain` shows them.
func planText(t *testing.T, p Policy, in plan.Input) string {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	in.View = fixedView()
	in.Spec = p.spec(in.View, false)
	in.Filters = seccomp.Set{Allow: make([]byte, 8), Deny: make([]byte, 8), Init: make([]byte, 8)}
	in.HardLimit = func(uint64) uint64 { return 1 << 40 }
	in.RequestBytes = p.requestBytes()
	if p.Bridge.Tools != nil {
		files, err := stubs.Files(p.Bridge.Tools)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files { // what the stubs hold is the stubs' business
			in.Bridge = append(in.Bridge, plan.BridgeFile{Path: f.Path, Mode: f.Mode})
		}
	}
	prepare, err := plan.Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := plan.Run(in)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	show := func(phase string, ops []plan.Operation) {
		for _, o := range ops {
			fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%-8s %-19s %s", phase, o.Op, o.Detail())))
			if o.Op == plan.OpProgram {
				phase = "program"
			}
		}
	}
	show("template", plan.Template(in.View, in.IDs.Rootless).Ops)
	show("init", prepare.Ops)
	show("init", sandbox.Ops)
	for _, o := range sandbox.Ops[len(sandbox.Ops)-1:] {
		for _, s := range o.Strings {
			fmt.Fprintln(&b, "         ", s)
		}
	}
	return b.String()
}

// TestPlanGolden shows each change of what is done for a sandbox as a change of
// a text; `go test ./runtime -run Golden -update` writes it anew.
func TestPlanGolden(t *testing.T) {
	ids := plan.IDs{UID: idBase, GID: idBase, SupervisorUID: idBase + 1, SupervisorGID: idBase + 1}
	tools := NewPolicy("python3", "-c", "pass")
	tools.Bridge.Tools = emptySet(t)
	tools.Files = []File{{Data: []byte("x"), Target: "in/a.txt"}}
	for name, c := range map[string]struct {
		p  Policy
		in plan.Input
	}{
		"default":  {NewPolicy("true"), plan.Input{IDs: ids, JoinFDs: 4}},
		"bridge":   {tools, plan.Input{IDs: ids, FirstJoin: 1, Files: []plan.InputFile{{Target: "/workspace/in/a.txt", Mode: 0o644, Size: 1}}}},
		"rootless": {NewPolicy("true"), plan.Input{IDs: plan.IDs{Rootless: true}}},
	} {
		path := "testdata/plan-" + name + ".txt"
		got := planText(t, c.p, c.in)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-update writes it anew):\n%s", path, d)
		}
	}
}

// Explain tells the same order as a run follows, and touches nothing.
func TestExplain(t *testing.T) {
	p := NewPolicy("true")
	p.Files = []File{{Data: []byte("x"), Target: "a"}}
	p.Bridge.Tools = emptySet(t)
	e, err := Explain(p)
	if err != nil {
		t.Fatal(err)
	}
	phases := ""
	for _, s := range e.Steps {
		if !strings.HasSuffix(phases, s.Phase) {
			phases += " " + s.Phase
		}
	}
	if phases != " template init program" {
		t.Errorf("phases:%s", phases)
	}
	if last := e.Steps[len(e.Steps)-1]; last.Op != "exec" || last.Detail != "true" {
		t.Errorf("last step %+v", last)
	}
	if e.Spec.Linux.Seccomp == nil || len(e.Spec.Linux.Seccomp.Syscalls) == 0 {
		t.Error("the spec shows no filter")
	}
	p.Limits.Memory = 0
	if _, err := Explain(p); err == nil {
		t.Error("an invalid policy is explained")
	}
}

func TestSpecHasEveryLimit(t *testing.T) {
	p := NewPolicy("true")
	s := p.spec(fixedView(), false)
	r := s.Linux.Resources
	if *r.Memory.Limit != DefaultMemory || *r.Memory.Swap != DefaultMemory || *r.Pids.Limit != DefaultPids+1 || *r.CPU.Quota <= 0 {
		t.Errorf("%+v", r)
	}
	if !s.Root.Readonly || !s.Process.NoNewPrivileges || s.Process.User.UID == 0 {
		t.Error("the spec is weak")
	}
	for _, m := range s.Mounts {
		text := strings.Join(m.Options, ",") + ","
		if !strings.Contains(text, "nosuid,") {
			t.Errorf("%s is not nosuid", m.Destination)
		}
		if m.Type == "tmpfs" && !(strings.Contains(text, "size=") && strings.Contains(text, "nr_inodes=")) {
			t.Errorf("%s has no limit of bytes and inodes: %s", m.Destination, text)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SBXRUN_CANARY", "host-value")
	p := NewPolicy("true")
	p.Limits.CPUs = 1.5
	p.Env = map[string]string{"A": "b=c", "HOME": "/elsewhere", "OMP_NUM_THREADS": "7"}
	env := strings.Join(p.environment(), "\n") + "\n"
	for _, want := range []string{"A=b=c\n", "HOME=/elsewhere\n", "OMP_NUM_THREADS=7\n", "GOMAXPROCS=2\n", "LANG=C.UTF-8\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in %s", want, env)
		}
	}
	if strings.Contains(env, "host-value") || strings.Contains(env, "PYTHONPATH") {
		t.Errorf("too much: %s", env)
	}
	p.Bridge.Tools = emptySet(t)
	env = strings.Join(p.environment(), "\n")
	if !strings.Contains(env, "PYTHONPATH="+bridgeDir+"/sdk") || !strings.Contains(env, "PATH="+bridgeDir+"/sdk:") {
		t.Errorf("the stubs are not reached: %s", env)
	}
}
