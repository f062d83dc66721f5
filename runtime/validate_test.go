package runtime

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/errdef"
)

func emptySet(t testing.TB) *bridge.Set {
	t.Helper()
	set, err := bridge.NewSet(nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestDefaultPolicyIsValid(t *testing.T) {
	p := NewPolicy("true")
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Bridge.Tools = emptySet(t)
	if err := p.Validate(); err != nil {
		t.Errorf("with a bridge: %v", err)
	}
	if err := (&Policy{}).Validate(); !errdef.Is(err, errdef.Invalid) {
		t.Errorf("the zero policy: %v", err)
	}
	q := NewPolicy("true")
	q.Limits = Limits{}
	if err := q.Validate(); !errdef.Is(err, errdef.Invalid) {
		t.Errorf("zero limits: %v", err)
	}
}

// Every limit: least and most are taken, zero, negative and beyond are not.
func TestNumericLimits(t *testing.T) {
	type field struct {
		name        string
		set         func(*Policy, int64)
		least, most int64
	}
	// Where the other limits bound a field before its own bound does, most is 0.
	fields := []field{
		{"memory", func(p *Policy, v int64) { p.Limits.SetMemory(v) }, MinMemory, 1 << 50},
		{"pids", func(p *Policy, v int64) { p.Limits.Pids = v }, 1, MaxPids},
		{"timeout", func(p *Policy, v int64) { p.Limits.Timeout = time.Duration(v) }, int64(time.Millisecond), int64(MaxTimeout)},
		{"output-limit", func(p *Policy, v int64) { p.Limits.OutputBytes = v }, 1, 1 << 40},
		{"open-files", func(p *Policy, v int64) { p.Limits.OpenFiles = v }, MinOpenFiles, 0},
		{"file-limit", func(p *Policy, v int64) { p.Limits.FileBytes = v }, 1, MaxFileBytes},
		{"workspace-size", func(p *Policy, v int64) { p.Limits.WorkspaceBytes = v }, 4096, 0},
		{"workspace-inodes", func(p *Policy, v int64) { p.Limits.WorkspaceInodes = v }, 16, MaxInodes},
		{"tmp-size", func(p *Policy, v int64) { p.Limits.TmpBytes = v }, 4096, 0},
		{"tmp-inodes", func(p *Policy, v int64) { p.Limits.TmpInodes = v }, 16, MaxInodes},
		{"shm-size", func(p *Policy, v int64) { p.Limits.ShmBytes = v }, 4096, 0},
		{"shm-inodes", func(p *Policy, v int64) { p.Limits.ShmInodes = v }, 16, MaxInodes},
	}
	for _, f := range fields {
		try := func(v int64, ok bool) {
			t.Helper()
			p := NewPolicy("true")
			if strings.HasSuffix(f.name, "-inodes") {
				p.Limits.Memory = 8 << 30 // they count against it
			}
			f.set(&p, v)
			err := p.Validate()
			if ok && err != nil {
				t.Errorf("%s = %d: %v", f.name, v, err)
			}
			if !ok && !(errdef.Is(err, errdef.Invalid) && strings.HasPrefix(err.Error(), f.name+": ")) {
				t.Errorf("%s = %d: %v", f.name, v, err)
			}
		}
		try(f.least, true)
		for _, v := range []int64{0, -1, math.MinInt64, f.least - 1, math.MaxInt64} {
			try(v, false)
		}
		if f.most > 0 {
			try(f.most, true)
			try(f.most+1, false)
		}
	}
}

func TestCPUs(t *testing.T) {
	for _, c := range []struct {
		v  float64
		ok bool
	}{{0.01, true}, {1, true}, {4096, true}, {0, false}, {-1, false}, {0.009, false}, {4097, false},
		{math.NaN(), false}, {math.Inf(1), false}, {math.Inf(-1), false}, {math.Copysign(0, -1), false}} {
		p := NewPolicy("true")
		p.Limits.CPUs = c.v
		if err := p.Validate(); (err == nil) != c.ok || !c.ok && !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%v: %v", c.v, err)
		}
	}
}

func TestSizesAreWholePages(t *testing.T) {
	for name, set := range map[string]func(*Limits){
		"memory": func(l *Limits) { l.Memory++ }, "workspace-size": func(l *Limits) { l.WorkspaceBytes += 2048 },
		"tmp-size": func(l *Limits) { l.TmpBytes-- }, "shm-size": func(l *Limits) { l.ShmBytes += 512 },
	} {
		p := NewPolicy("true")
		set(&p.Limits)
		if err := p.Validate(); !errdef.Is(err, errdef.Invalid) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDisksFitBelowMemory(t *testing.T) {
	sum := func(p *Policy) int64 { return p.Limits.TmpBytes + p.Limits.ShmBytes + p.requestBytes() }
	for _, tools := range []bool{false, true} {
		p := NewPolicy("true")
		if tools {
			p.Bridge.Tools = emptySet(t)
		}
		p.Limits.WorkspaceBytes = p.Limits.Memory - sum(&p)
		if err := p.Validate(); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("tools %v, as large as memory: %v", tools, err)
		}
		// Inodes and the pages that manage pages count too, within reason.
		for p.Validate() != nil && p.Limits.WorkspaceBytes > pageSize {
			p.Limits.WorkspaceBytes -= pageSize
		}
		if p.Limits.WorkspaceBytes < p.Limits.Memory/2 {
			t.Errorf("tools %v: of %d bytes of memory only %d may be workspace", tools, p.Limits.Memory, p.Limits.WorkspaceBytes)
		}
	}
	for mem := int64(MinMemory); mem <= 1<<33; mem += mem/3&^4095 + 4096 {
		p := NewPolicy("true")
		p.Bridge.Tools = emptySet(t)
		p.Limits.SetMemory(mem)
		if err := p.Validate(); err != nil {
			t.Errorf("SetMemory(%d): %v", mem, err)
		}
	}
}

// invalid are policies that differ from a valid one in one thing.
func TestPolicyFields(t *testing.T) {
	files := func(targets ...string) tweak {
		return func(p *Policy) {
			for _, x := range targets {
				p.Files = append(p.Files, File{Data: []byte{}, Target: x})
			}
		}
	}
	many := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = strconv.Itoa(i)
		}
		return out
	}
	bind := func(src, dst string) tweak {
		return func(p *Policy) { p.Binds = append(p.Binds, Bind{src, dst}) }
	}
	tools := func(f func(*Bridge)) tweak {
		return func(p *Policy) { p.Bridge.Tools = emptySet(t); f(&p.Bridge) }
	}
	for _, c := range []struct {
		field string // "" = valid
		f     tweak
	}{
		{"command", func(p *Policy) { p.Args = nil }},
		{"command", func(p *Policy) { p.Args = []string{""} }},
		{"command", func(p *Policy) { p.Args = []string{"a\x00b"} }},
		{"command", func(p *Policy) { p.Args = append(p.Args, strings.Repeat("x", MaxStringBytes+1)) }},
		{"", func(p *Policy) { p.Args = append(p.Args, strings.Repeat("x", MaxStringBytes)) }},
		{"", func(p *Policy) { p.Args = append(p.Args, "") }},
		{"command", func(p *Policy) { p.Args = append(p.Args, many(100_000)...) }}, // case 34
		{"", func(p *Policy) { p.Args = many(MaxArgs) }},
		{"command", func(p *Policy) { p.Args = many(MaxArgs + 1) }},
		{"command", func(p *Policy) {
			for range 9 {
				p.Args = append(p.Args, strings.Repeat("x", MaxStringBytes))
			}
		}},
		{"env", func(p *Policy) { // case 34
			for i := range 20 {
				p.Env[strconv.Itoa(i)] = strings.Repeat("x", 100<<10)
			}
		}},
		{"env", func(p *Policy) {
			for i := range MaxEnv + 1 {
				p.Env["A"+strconv.Itoa(i)] = ""
			}
		}},
		{"env", func(p *Policy) { p.Env[""] = "x" }},
		{"env", func(p *Policy) { p.Env["A=B"] = "x" }},
		{"env", func(p *Policy) { p.Env["A\x00"] = "x" }},
		{"env", func(p *Policy) { p.Env["A"] = "x\x00" }},
		{"env", func(p *Policy) { p.Env["A"] = strings.Repeat("x", MaxStringBytes) }},
		{"", func(p *Policy) { p.Env["A"] = "line\nline\xff" }},
		{"", func(p *Policy) { p.Env = nil }},
		{"user", func(p *Policy) { p.UID = 0 }},
		{"user", func(p *Policy) { p.GID = 0 }},
		{"user", func(p *Policy) { p.UID = math.MaxUint32 }},
		{"user", func(p *Policy) { p.GID = math.MaxUint32 }},
		{"", func(p *Policy) { p.UID, p.GID = math.MaxUint32-1, 1 }},
		{"hostname", func(p *Policy) { p.Hostname = "" }},
		{"hostname", func(p *Policy) { p.Hostname = "-a" }},
		{"hostname", func(p *Policy) { p.Hostname = "a.b" }},
		{"hostname", func(p *Policy) { p.Hostname = "a\nb" }},
		{"hostname", func(p *Policy) { p.Hostname = "ä" }},
		{"hostname", func(p *Policy) { p.Hostname = strings.Repeat("a", 64) }},
		{"", func(p *Policy) { p.Hostname = strings.Repeat("a", 63) }},
		{"output-overflow", func(p *Policy) { p.Limits.OutputOverflow = "" }},
		{"output-overflow", func(p *Policy) { p.Limits.OutputOverflow = "block" }},
		{"", func(p *Policy) { p.Limits.OutputOverflow = OverflowStop }},
		{"cwd", func(p *Policy) { p.Cwd = "" }},
		{"cwd", func(p *Policy) { p.Cwd = "rel" }},
		{"cwd", func(p *Policy) { p.Cwd = "/workspace/../etc" }},
		{"cwd", func(p *Policy) { p.Cwd = "/proc/self/fd/7" }}, // case 15
		{"cwd", func(p *Policy) { p.Cwd = "/proc" }},
		{"cwd", func(p *Policy) { p.Cwd = "/dev/fd/3" }},
		{"cwd", func(p *Policy) { p.Cwd = "/sys" }},
		{"cwd", func(p *Policy) { p.Cwd = "/a\x00" }},
		{"", func(p *Policy) { p.Cwd = "/" }},
		{"", func(p *Policy) { p.Cwd = "/process" }},
		{"rootfs", func(p *Policy) { p.Rootfs.Dir = "relative" }},
		{"file", files("")}, {"file", files("/workspace")}, {"file", files("/etc/x")}, {"file", files("../x")},
		{"file", files("a/../b")}, {"file", files("a//b")}, {"file", files("a/")}, {"file", files("a\x00")}, {"file", files(".")},
		{"file", files(".bridge/x")}, {"file", files(".bridge")}, {"file", files("/workspace/.bridge/req/req_1.json")},
		{"file", files("a", "/workspace/a")}, {"file", files("a", "a/b")}, {"file", files("a/b/c", "a")},
		{"", files("a/b", "a/c", ".bridged", "/workspace/x")},
		{"file", files(many(MaxFiles + 1)...)}, {"", files(many(MaxFiles)...)},
		{"file", func(p *Policy) { p.Files = []File{{Data: []byte{}, Target: "a", Mode: 0o4755}} }},
		{"file", func(p *Policy) { p.Files = []File{{Data: []byte{}, Target: "a", Mode: 0o1000}} }},
		{"out", func(p *Policy) { p.Outputs = []Output{{Path: "/etc/passwd"}} }},
		{"out", func(p *Policy) { p.Outputs = []Output{{Path: "../x"}} }},
		{"out", func(p *Policy) { p.Outputs = []Output{{Path: ".bridge/tools.json"}} }},
		{"out", func(p *Policy) { p.Outputs = make([]Output, MaxOutputs+1) }},
		{"", func(p *Policy) { p.Outputs = []Output{{Path: "a/b"}, {Path: "/workspace/c"}} }},
		{"bind-ro", bind("rel", "/opt/x")}, {"bind-ro", bind("/opt", "rel")}, {"bind-ro", bind("/opt", "/")},
		{"bind-ro", bind("/opt", "/proc/x")}, {"bind-ro", bind("/opt", "/sys")}, {"bind-ro", bind("/opt", "/dev/x")},
		{"bind-ro", bind("/opt", "/workspace/x")}, {"bind-ro", bind("/opt", "/tmp/x")}, {"bind-ro", bind("/opt", "/a/../b")},
		{"bind-ro", bind("", "/opt/x")}, {"", bind("/opt", "/opt/x")}, {"", bind("/opt", "/devices")},
		{"bind-ro", func(p *Policy) {
			for i := range MaxBinds + 1 {
				p.Binds = append(p.Binds, Bind{"/opt", "/opt/" + strconv.Itoa(i)})
			}
		}},
		{"max-tool-calls", tools(func(b *Bridge) { b.MaxCalls = -1 })},
		{"max-tool-calls", tools(func(b *Bridge) { b.MaxCalls = MaxToolCalls + 1 })},
		{"", tools(func(b *Bridge) { b.MaxCalls = 0 })},
		{"tool-concurrency", tools(func(b *Bridge) { b.Concurrency = 0 })},
		{"tool-concurrency", tools(func(b *Bridge) { b.Concurrency = -1 })},
		{"tool-concurrency", tools(func(b *Bridge) { b.Concurrency = MaxToolConcurrency + 1 })},
		{"tool-timeout", tools(func(b *Bridge) { b.ToolTimeout = 0 })},
		{"tool-timeout", tools(func(b *Bridge) { b.ToolTimeout = -time.Second })},
		{"tool-timeout", tools(func(b *Bridge) { b.ToolTimeout = MaxTimeout + 1 })},
	} {
		p := NewPolicy("true")
		c.f(&p)
		err := p.Validate()
		if c.field == "" && err != nil {
			t.Errorf("valid: %v", err)
		}
		if c.field != "" && !(errdef.Is(err, errdef.Invalid) && strings.HasPrefix(err.Error(), c.field+": ")) {
			t.Errorf("want an error of %s, got %v", c.field, err)
		}
	}
}

func TestNetworkModesAreRefused(t *testing.T) {
	for _, m := range []NetworkMode{"", "full", "restricted", "host", "NONE", "none "} {
		p := NewPolicy("true")
		p.Network = m
		if err := p.Validate(); !errdef.Is(err, errdef.Unsupported) || errdef.HintOf(err) == "" {
			t.Errorf("%q: %v", m, err)
		}
	}
}

func TestOpenFilesAboveTheHostsHardLimit(t *testing.T) {
	p := NewPolicy("true")
	p.Limits.OpenFiles = int64(hardLimit(7))
	if p.Limits.OpenFiles >= 1<<20 {
		t.Skip("the host's own limit is no smaller than the policy's bound")
	}
	if err := p.Validate(); err != nil {
		t.Errorf("as high as the host's: %v", err)
	}
	p.Limits.OpenFiles++
	if err := p.Validate(); !errdef.Is(err, errdef.Unsupported) || errdef.HintOf(err) == "" {
		t.Errorf("above the host's: %v", err)
	}
}

// Messages are one line, whatever the input holds.
func FuzzValidate(f *testing.F) {
	f.Add("true", "A", "b", "/workspace", "box", "f", int64(1<<28), 1.0)
	f.Add("\x00", "=", "\n", "/proc/1", "", "../x", int64(-1), math.NaN())
	f.Fuzz(func(t *testing.T, arg, key, value, cwd, host, file string, mem int64, cpus float64) {
		p := NewPolicy(arg)
		p.Env[key], p.Cwd, p.Hostname = value, cwd, host
		p.Files = []File{{Data: []byte{}, Target: file}}
		p.Outputs = []Output{{Path: file}}
		p.Limits.Memory, p.Limits.CPUs = mem, cpus
		err := p.Validate()
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") || !(errdef.Is(err, errdef.Invalid) || errdef.Is(err, errdef.Unsupported)) {
				t.Errorf("%q", err)
			}
			return
		}
		if _, err := json.Marshal(p.environment()); err != nil {
			t.Error(err)
		}
	})
}
