package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
)

var goarches = []string{"amd64", "arm64"}

// TestEmbeddedFiltersAreCurrent compiles the policy anew. If it fails after a
// change of the policy, run `go generate ./seccomp`.
func TestEmbeddedFiltersAreCurrent(t *testing.T) {
	for _, arch := range goarches {
		filters, err := compile(arch)
		if err != nil {
			t.Fatal(err)
		}
		set, err := seccomp.Filters(arch)
		if err != nil {
			t.Fatal(err)
		}
		for name, embedded := range map[string][]byte{"allow": set.Allow, "deny": set.Deny, "init": set.Init} {
			if !bytes.Equal(filters[name], embedded) {
				t.Errorf("%s %s: the embedded filter is not what the policy compiles to", arch, name)
			}
			file, err := os.ReadFile(filepath.Join("..", "..", "filters", arch+"_"+name+".bpf"))
			if err != nil || !bytes.Equal(file, embedded) {
				t.Errorf("%s %s: file: %v", arch, name, err)
			}
		}
	}
}

func TestRunWritesTheFilters(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.bpf"))
	if err != nil || len(files) != 6 {
		t.Errorf("%d files (%v), want 6", len(files), err)
	}
	if err := run(filepath.Join(dir, "missing")); err == nil {
		t.Error("wrote into a directory that doesn't exist")
	}
}

// TestConstantAnswersAreCached runs the filters as the kernel does when it
// loads them, to learn for which numbers it need not run them again.
func TestConstantAnswersAreCached(t *testing.T) {
	const longest = 12 // instructions; the balance of the tree
	for _, arch := range goarches {
		ruled := map[string]bool{}
		for _, s := range seccomp.Permits(arch) {
			for _, r := range s.Rules {
				ruled[r.Syscall] = true
			}
		}
		set, err := seccomp.Filters(arch)
		if err != nil {
			t.Fatal(err)
		}
		prog := decode(t, set.Allow)
		allowed := map[uint32]bool{}
		for _, g := range seccomp.Groups(arch) {
			for _, n := range g.Syscalls {
				nr, _ := seccomp.Number(arch, n)
				allowed[nr] = !ruled[n]
			}
		}
		for nr := range uint32(1024) {
			constant, steps := constAllow(prog, seccomp.AuditArch(arch), nr)
			if constant != allowed[nr] {
				t.Errorf("%s %s: always allowed for the kernel: %v, want %v", arch, seccomp.Name(arch, nr), constant, allowed[nr])
			}
			if steps > longest {
				t.Errorf("%s: %d takes %d steps", arch, nr, steps)
			}
		}
	}
}

// constAllow is seccomp_is_const_allow (kernel/seccomp.c): it gives up at
// whatever is no constant of the number and the architecture.
func constAllow(prog []bpf.RawInstruction, arch, nr uint32) (ok bool, steps int) {
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		steps++
		insn := prog[pc]
		skip := func(yes bool) {
			if yes {
				pc += int(insn.Jt)
			} else {
				pc += int(insn.Jf)
			}
		}
		switch {
		case insn.Op == opLoad && insn.K == offNumber:
			acc = nr
		case insn.Op == opLoad && insn.K == offArch:
			acc = arch
		case insn.Op == opReturn:
			return insn.K == uint32(eval.Allow), steps
		case insn.Op == opJump:
			pc += int(insn.K)
		case insn.Op == opIfEqual:
			skip(acc == insn.K)
		case insn.Op == opIfAtLeast:
			skip(acc >= insn.K)
		case insn.Op == opAnd:
			acc &= insn.K
		default:
			return false, steps
		}
	}
	return false, steps
}

// TestAssembleLarge assembles policies whose jumps pass the 8 bits of a
// distance, and compares them with their data.
func TestAssembleLarge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	answers := []eval.Action{eval.Allow, eperm, enosys, eval.Errno(95)}
	for _, size := range []int{0, 1, 2, 3, 254, 255, 256, 257, 258, 300, 511, 513, 900} {
		p := policy{"amd64", map[uint32]verdict{}, enosys}
		for range size {
			v := verdict{hit: answers[random.IntN(4)], miss: answers[random.IntN(4)]}
			for range random.IntN(3) {
				v.rules = append(v.rules, []seccomp.Match{
					{Arg: 1, Mask: 0xff, Value: uint32(random.IntN(4))}, {Arg: 3, Mask: ^uint32(0), Value: uint32(random.IntN(4))},
				})
			}
			p.calls[uint32(random.IntN(2*size))] = v
		}
		prog, err := p.assemble()
		if err != nil {
			t.Fatalf("%d calls: %v", size, err)
		}
		e, err := eval.New(prog)
		if err != nil {
			t.Fatalf("%d calls: %v", size, err)
		}
		t.Logf("%d calls: %d instructions", len(p.calls), len(prog)/8)
		for nr := range uint32(2*size + 2) {
			for value := range uint64(25) {
				args := [6]uint64{1: random.Uint64()<<8 | value/5, 3: random.Uint64()<<32 | value%5}
				got, err := e.Run(seccomp.AuditArchX8664, nr, args)
				if want := p.answer(nr, args); err != nil || got != want {
					t.Fatalf("%d calls: %d(%#x): %v (%v), want %v", size, nr, args, got, err, want)
				}
			}
		}
	}
}

// answer says what a policy means.
func (p policy) answer(nr uint32, args [6]uint64) eval.Action {
	v, ok := p.calls[nr]
	if !ok {
		return p.otherwise
	}
	for _, r := range v.rules {
		if !slices.ContainsFunc(r, func(m seccomp.Match) bool { return uint32(args[m.Arg])&m.Mask != m.Value }) {
			return v.hit
		}
	}
	return v.miss
}

func TestAssembleRefuses(t *testing.T) {
	one := func(rules ...[]seccomp.Match) policy {
		return policy{"amd64", map[uint32]verdict{7: {rules, eval.Allow, eperm}}, enosys}
	}
	many := policy{"amd64", map[uint32]verdict{}, enosys}
	for nr := range uint32(seccomp.MaxInstructions) {
		many.calls[nr] = verdict{miss: eval.Errno(1) + eval.Action(nr%3)}
	}
	const all = ^uint32(0)
	for want, p := range map[string]policy{
		"no policy for":    {"riscv64", nil, enosys},
		"different fields": one([]seccomp.Match{{Arg: 0, Mask: all}}, []seccomp.Match{{Arg: 1, Mask: all}}),
		"poll: ":           one([]seccomp.Match{{Arg: 0, Mask: all}}, []seccomp.Match{{Arg: 0, Mask: 1}}),
		"{Arg:6":           one([]seccomp.Match{{Arg: 6, Mask: all}}),
		"never holds":      one([]seccomp.Match{{Arg: 0, Mask: 1, Value: 2}}),
		"the kernel takes": many,
	} {
		if _, err := p.assemble(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := compile("riscv64"); err == nil {
		t.Error("compiled for an architecture without a policy")
	}
	if _, err := compile(""); err == nil {
		t.Error("compiled for no architecture")
	}
}

func decode(t testing.TB, prog []byte) []bpf.RawInstruction {
	t.Helper()
	insns, err := seccomp.Decode(prog)
	if err != nil {
		t.Fatal(err)
	}
	return insns
}
