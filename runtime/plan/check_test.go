package plan

import (
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/seccomp"
)

// goodSpec is the least that the engine takes.
func goodSpec() *specs.Spec {
	s := &specs.Spec{
		Root:     &specs.Root{Path: "/", Readonly: true},
		Hostname: "box",
		Process: &specs.Process{
			User: specs.User{UID: 1000, GID: 1001}, Args: []string{"prog", "arg"}, Cwd: "/workspace",
			Env:          []string{"A=b", "PATH=/usr/bin:/bin/"},
			Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}},
		},
		Linux: &specs.Linux{Seccomp: &specs.LinuxSeccomp{}, MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: []string{"/proc/sys"}},
		Mounts: []specs.Mount{
			{Destination: "/usr", Type: "bind", Source: "/usr"},
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec"}},
			{Destination: "/workspace", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "ro", "size=4096"}},
		},
	}
	for _, ns := range Namespaces() {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: ns})
	}
	return s
}

func goodInput(s *specs.Spec) Input {
	return Input{Spec: s, View: &rootfs.View{},
		IDs:     IDs{UID: 70000, GID: 70001, SupervisorUID: 70002, SupervisorGID: 70003},
		Filters: seccomp.Set{Allow: make([]byte, 8), Deny: make([]byte, 16), Init: make([]byte, 24)},
		HardLimit: func(r uint64) uint64 {
			if r == rlimitMemlock {
				return 4096
			}
			return 1 << 40
		}}
}

// compile returns both parts of a sandbox's plan as one.
// compile returns both parts of a sandbox as one list.
func compile(t *testing.T, in Input) *Plan {
	t.Helper()
	first, err := Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Run(in)
	if err != nil {
		t.Fatal(err)
	}
	encode(t, first)
	encode(t, second)
	return &Plan{Ops: append(first.Ops, second.Ops...)}
}

// refused compiles both parts and returns the first refusal.
func refused(in Input) error {
	if _, err := Prepare(in); err != nil {
		return err
	}
	_, err := Run(in)
	return err
}

func TestSpecRefusals(t *testing.T) {
	compile(t, goodInput(goodSpec()))
	for field, change := range map[string]func(*specs.Spec){
		"process.args":                func(s *specs.Spec) { s.Process.Args = nil },
		"root.readonly":               func(s *specs.Spec) { s.Root.Readonly = false },
		"process.noNewPrivileges":     func(s *specs.Spec) { s.Process.NoNewPrivileges = false },
		"process.user":                func(s *specs.Spec) { s.Process.User.UID = 0 },
		"process.user ":               func(s *specs.Spec) { s.Process.User.GID = 0 },
		"process.user.additionalGids": func(s *specs.Spec) { s.Process.User.AdditionalGids = []uint32{1} },
		"process.terminal":            func(s *specs.Spec) { s.Process.Terminal = true },
		"process.capabilities":        func(s *specs.Spec) { s.Process.Capabilities = nil },
		"process.capabilities b":      func(s *specs.Spec) { s.Process.Capabilities.Bounding = []string{"CAP_KILL"} },
		"process.capabilities e":      func(s *specs.Spec) { s.Process.Capabilities.Effective = []string{"CAP_KILL"} },
		"process.capabilities i":      func(s *specs.Spec) { s.Process.Capabilities.Inheritable = []string{"CAP_KILL"} },
		"process.capabilities p":      func(s *specs.Spec) { s.Process.Capabilities.Permitted = []string{"CAP_KILL"} },
		"process.capabilities a":      func(s *specs.Spec) { s.Process.Capabilities.Ambient = []string{"CAP_KILL"} },
		"hooks":                       func(s *specs.Spec) { s.Hooks = &specs.Hooks{} },
		"linux.seccomp":               func(s *specs.Spec) { s.Linux.Seccomp = nil },
		"linux.devices":               func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{}} },
		"linux.sysctl":                func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"a": "b"} },
		"linux.namespaces":            func(s *specs.Spec) { s.Linux.Namespaces = s.Linux.Namespaces[1:] },
		"linux.namespaces twice":      func(s *specs.Spec) { s.Linux.Namespaces[0] = s.Linux.Namespaces[1] },
		"linux.namespaces join":       func(s *specs.Spec) { s.Linux.Namespaces[0].Path = "/proc/1/ns/pid" },
		"linux.namespaces more": func(s *specs.Spec) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.TimeNamespace})
		},
		"mounts.options": func(s *specs.Spec) { s.Mounts[1].Options = []string{"shared"} },
		"process.rlimits": func(s *specs.Spec) {
			s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_AS"}}
		},
		"spec":   func(s *specs.Spec) { s.Process = nil },
		"spec l": func(s *specs.Spec) { s.Linux = nil },
		"spec r": func(s *specs.Spec) { s.Root = nil },
	} {
		s := goodSpec()
		change(s)
		_, err := Prepare(goodInput(s))
		inFirstPart := field == "mounts.options" || field == "process.rlimits"
		if _, runErr := Run(goodInput(s)); !inFirstPart && !errdef.Is(runErr, errdef.Unsupported) {
			t.Errorf("%s: the second part is compiled: %v", field, runErr)
		}
		want, _, _ := strings.Cut(field, " ")
		if !errdef.Is(err, errdef.Unsupported) || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := Prepare(goodInput(nil)); !errdef.Is(err, errdef.Unsupported) {
		t.Errorf("no spec: %v", err)
	}
}

func ops(p *Plan, code Op) []Operation {
	var out []Operation
	for _, o := range p.Ops {
		if o.Op == code {
			out = append(out, o)
		}
	}
	return out
}

func index(p *Plan, code Op) int {
	for i, o := range p.Ops {
		if o.Op == code {
			return i
		}
	}
	return -1
}

// The order is the security: rights go before filters, filters before the
// program, and nothing is done between the last filter and the execve.
func TestOrder(t *testing.T) {
	p := compile(t, goodInput(goodSpec()))
	last := -1
	for _, code := range []Op{OpEnter, OpUnshare, OpMount, OpMask, OpLoopback, OpHostname, OpExport, OpRlimit, OpAwait, OpStdio, OpChown,
		OpSupervisor, OpProgram, OpUserSysctl, OpIdentity, OpDropCaps, OpNoNewPrivs, OpChdir, OpSeccomp, OpExec} {
		i := index(p, code)
		if i <= last {
			t.Errorf("%v at %d, after %d", code, i, last)
		}
		last = i
	}
	n := len(p.Ops)
	if p.Ops[n-1].Op != OpExec || p.Ops[n-2].Op != OpSeccomp || p.Ops[n-3].Op != OpSeccomp {
		t.Error("the plan does not end in filter, filter, exec")
	}
}

func TestJoinAndFileDescriptors(t *testing.T) {
	in := goodInput(goodSpec())
	in.JoinFDs, in.FirstJoin = 2, 1
	in.Files = []InputFile{{Target: "/workspace/a/b/c", Mode: 0o600, Size: 5}, {Target: "/workspace/a/d", Mode: 0o755, Size: 6}}
	p := compile(t, in)
	for i, o := range ops(p, OpJoin) {
		if o.Args[0] != uint64(FDCgroup+1+i) {
			t.Errorf("join %d: fd %d", i, o.Args[0])
		}
	}
	var dirs []string
	for _, o := range ops(p, OpDir) {
		dirs = append(dirs, o.Strings[0])
		if o.Args[1] != 70000 || o.Args[2] != 70001 {
			t.Errorf("%s is not the program's: %v", o.Strings[0], o.Args)
		}
	}
	if got := strings.Join(dirs, " "); got != "/workspace/a /workspace/a/b" {
		t.Errorf("directories: %s", got)
	}
	for i, o := range ops(p, OpCopy) {
		if o.Args != [4]uint64{uint64(FDFirstFile + i), uint64(in.Files[i].Mode), uint64(in.Files[i].Size), 70000<<32 | 70001} {
			t.Errorf("copy %d: %v", i, o.Args)
		}
	}
}

func TestRlimitsNeverExceedTheCaller(t *testing.T) {
	for _, o := range ops(compile(t, goodInput(goodSpec())), OpRlimit) {
		if o.Args[0] == rlimitMemlock && (o.Args[1] != 4096 || o.Args[2] != 4096) {
			t.Errorf("memlock %v", o.Args)
		}
		if o.Args[0] == rlimitCore && (o.Args[1] != 0 || o.Args[2] != 0) {
			t.Errorf("core %v", o.Args)
		}
	}
}

func TestRootlessPlan(t *testing.T) {
	in := goodInput(goodSpec())
	in.IDs = IDs{Rootless: true}
	p := compile(t, in)
	if index(p, OpSupervisor) >= 0 {
		t.Error("there is no second id to become")
	}
	if o := ops(p, OpIdentity)[0]; o.Args[2] != 1 {
		t.Error("setgroups is tried")
	}
	if o := ops(p, OpUmount); len(o) != 1 || o[0].Strings[0] != rootfs.EmptyDir {
		t.Errorf("the host's procfs stays: %v", o)
	}
	tmpl := Template(&rootfs.View{}, true)
	if b := ops(tmpl, OpBind); len(b) != 1 || b[0].Strings[0] != "/proc" {
		t.Errorf("%v", b)
	}
	if b := ops(Template(&rootfs.View{}, false), OpBind); len(b) != 0 {
		t.Errorf("with privilege: %v", b)
	}
}

func TestTemplateAttributes(t *testing.T) {
	v := &rootfs.View{Binds: []rootfs.Bind{
		{Source: "/d", Target: "/d", Kind: rootfs.KindDir}, {Source: "/f", Target: "/f", Kind: rootfs.KindFile, NoFollow: true},
		{Source: "/c", Target: "/c", Kind: rootfs.KindChar, Major: 1, Minor: 3}}}
	p := Template(v, false)
	want := []Operation{
		{OpBind, [4]uint64{AttrRdonly | AttrNosuid | AttrNodev, 1, 0, bindRecursive}, []string{"/d", "d"}},
		{OpBind, [4]uint64{AttrRdonly | AttrNosuid | AttrNodev, 2, 0, bindNoFollow}, []string{"/f", "f"}},
		{OpBind, [4]uint64{AttrRdonly | AttrNosuid | AttrNoexec, 3, 1<<32 | 3, 0}, []string{"/c", "c"}},
	}
	for i, o := range ops(p, OpBind) {
		if o.Args != want[i].Args || o.Strings[0] != want[i].Strings[0] || o.Strings[1] != want[i].Strings[1] {
			t.Errorf("%v, want %v", o, want[i])
		}
	}
	n := len(p.Ops)
	if p.Ops[0].Op != OpRoot || p.Ops[n-2].Op != OpPivot || p.Ops[n-1].Op != OpAttr || p.Ops[n-1].Args[0] != AttrRdonly {
		t.Error("the template does not end in a read-only root")
	}
}

// The program's name is looked up in the sandbox's PATH, never in a relative
// directory of it.
func TestExecCandidates(t *testing.T) {
	for _, c := range []struct{ prog, path, want string }{
		{"prog", "PATH=/usr/bin:/bin/", "/usr/bin/prog /bin/prog"},
		{"prog", "PATH=.:bin::/a", "/a/prog"},
		{"prog", "PATH=", "/nonexistent/prog"},
		{"prog", "X=/usr/bin", "/nonexistent/prog"},
		{"./prog", "PATH=/usr/bin", "./prog"},
		{"/x/prog", "PATH=/usr/bin", "/x/prog"},
	} {
		s := goodSpec()
		s.Process.Args[0], s.Process.Env = c.prog, []string{c.path}
		p := compile(t, goodInput(s))
		o := p.Ops[len(p.Ops)-1]
		if got := strings.Join(o.Strings[:o.Args[0]], " "); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.prog, c.path, got, c.want)
		}
		if o.Args[1] != 2 || o.Args[2] != 1 {
			t.Errorf("%v", o.Args)
		}
	}
}

func TestBridgeMounts(t *testing.T) {
	if p := compile(t, goodInput(goodSpec())); len(ops(p, OpExport)) != 3 {
		t.Error("without a bridge something of it is exported")
	}
	in := goodInput(goodSpec())
	in.RequestBytes = 1 << 20
	in.Bridge = []BridgeFile{{Path: "tools.json", Mode: 0o444, Data: []byte("{}")}}
	p := compile(t, in)
	final := map[string]uint64{}
	for _, o := range ops(p, OpMount) {
		final[o.Strings[1]] = o.Args[0]
		if o.Strings[2] == "tmpfs" && o.Strings[1] != "/workspace" &&
			(!strings.Contains(o.Strings[3], "size=") || !strings.Contains(o.Strings[3], "nr_inodes=")) {
			t.Errorf("%s without both limits: %s", o.Strings[1], o.Strings[3])
		}
	}
	for dir, want := range map[string]uint64{
		bridgeDir + "/req":  msNosuid | msNodev | msNoexec,
		bridgeDir + "/resp": msBind | msRemount | msRdonly | msNosuid | msNodev | msNoexec,
		bridgeDir:           msBind | msRemount | msRdonly | msNosuid | msNodev,
	} {
		if final[dir] != want {
			t.Errorf("%s ends with %#x, want %#x", dir, final[dir], want)
		}
	}
}

func TestDetails(t *testing.T) {
	for _, c := range []struct {
		o    Operation
		want string
	}{
		{Operation{OpRoot, [4]uint64{10, 5}, nil}, "tmpfs, 10 bytes, 5 inodes"},
		{Operation{OpDir, [4]uint64{0o755, 1, 2}, []string{"a"}}, "/a mode 0755 owner 1:2"},
		{Operation{OpMount, [4]uint64{msBind | msRemount | msRdonly}, []string{"", "/x", "", ""}}, "bind on /x (remount,bind,ro)"},
		{Operation{OpMount, [4]uint64{msNosuid}, []string{"tmpfs", "/x", "tmpfs", "size=1"}}, "tmpfs on /x (nosuid) size=1"},
		{Operation{OpMount, [4]uint64{1 << 40}, []string{"a", "/x", "t", ""}}, "t on /x (0x10000000000)"},
		{Operation{OpRlimit, [4]uint64{rlimitNofile, 1, 2}, nil}, "RLIMIT_NOFILE soft 1 hard 2"},
		{Operation{OpRlimit, [4]uint64{99, 1, 2}, nil}, "99 soft 1 hard 2"},
		{Operation{OpExec, [4]uint64{1, 2, 1}, []string{"/bin/a", "a", "b", "K=V"}}, "a b"},
		{Operation{OpUnshare, [4]uint64{cloneNewNet | cloneNewIPC}, nil}, "network,ipc"},
		{Operation{OpPivot, [4]uint64{}, nil}, ""},
	} {
		if got := c.o.Detail(); got != c.want {
			t.Errorf("%v: %q, want %q", c.o.Op, got, c.want)
		}
	}
}

// The first part is made ahead and may serve any run: nothing of one is in it.
func TestFirstPartIsOfNoRun(t *testing.T) {
	a, b := goodInput(goodSpec()), goodInput(goodSpec())
	b.IDs = IDs{UID: 80000, GID: 80001, SupervisorUID: 80002, SupervisorGID: 80003}
	b.Spec.Process.Args, b.Spec.Process.Env, b.Spec.Process.Cwd = []string{"other"}, []string{"SECRET=x"}, "/tmp"
	b.Spec.Process.User.UID = 4242
	b.Files = []InputFile{{Target: "/workspace/f", Mode: 0o600}}
	p, err := Prepare(a)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Prepare(b)
	if err != nil {
		t.Fatal(err)
	}
	if string(encode(t, p)) != string(encode(t, q)) {
		t.Error("the first part depends on the run")
	}
	if p.Ops[len(p.Ops)-1].Op != OpAwait {
		t.Error("the first part does not end in a wait")
	}
}
