//go:build cgo && linux && amd64

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
)

const opIfAbove = 0x25 // libseccomp uses it too

// input is one call as a filter sees it.
type input struct {
	arch, nr uint32
	args     [6]uint64
}

func (in input) String() string {
	return fmt.Sprintf("arch %#x, number %#x, arguments %#x", in.arch, in.nr, in.args)
}

// TestFiltersEqualLibseccomp proves the embedded filters equal to what
// libseccomp compiles the policy to.
func TestFiltersEqualLibseccomp(t *testing.T) {
	for _, arch := range goarches {
		for name, pair := range pairs(t, arch) {
			t.Run(arch+" "+name, func(t *testing.T) {
				ours, theirs := evaluator(t, pair.ours), evaluator(t, pair.theirs)
				all := inputs(t, arch, pair)
				got := map[eval.Action]int{}
				for _, in := range all {
					a, b := answer(t, ours, in), answer(t, theirs, in)
					got[a]++
					if a != b {
						t.Errorf("%v: %v, libseccomp %v", in, a, b)
					}
				}
				t.Logf("%d instructions, libseccomp %d; %d calls: %v",
					len(pair.ours)/8, len(pair.theirs)/8, len(all), got)
			})
		}
	}
}

// TestInputsTellFiltersApart spoils each instruction in several ways: the inputs
// must show a difference every time, or equality on them would prove little.
func TestInputsTellFiltersApart(t *testing.T) {
	for _, arch := range goarches {
		for name, pair := range pairs(t, arch) {
			good, all, insns := evaluator(t, pair.ours), inputs(t, arch, pair), decode(t, pair.ours)
			// In random order most differences show early.
			random := rand.New(rand.NewPCG(0x5eed, 1))
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			want := make([]eval.Action, len(all))
			for i, in := range all {
				want[i] = answer(t, good, in)
			}
			differs := func(e *eval.Evaluator) bool {
				for i, in := range all {
					if a, err := e.Run(in.arch, in.nr, in.args); err != nil || a != want[i] {
						return true
					}
				}
				return false
			}
			for i, insn := range insns {
				for _, bad := range spoil(insn) {
					// What can't run at all, the kernel refuses as well.
					e, err := eval.New(encode(slices.Replace(slices.Clone(insns), i, i+1, bad)))
					if err == nil && !differs(e) {
						t.Errorf("%s %s: instruction %d, %+v: as %+v no call differs", arch, name, i, insn, bad)
					}
				}
			}
		}
	}
}

// spoil returns variants of an instruction with one thing wrong. Equality in
// place of order is not among them: at a leaf it may mean the same.
func spoil(insn bpf.RawInstruction) []bpf.RawInstruction {
	var out []bpf.RawInstruction
	add := func(op uint16, jt, jf uint8, k uint32) {
		if bad := (bpf.RawInstruction{Op: op, Jt: jt, Jf: jf, K: k}); bad != insn {
			out = append(out, bad)
		}
	}
	op, jt, jf, k := insn.Op, insn.Jt, insn.Jf, insn.K
	switch op {
	case opLoad:
		add(op, 0, 0, k+4) // the upper half
		add(op, 0, 0, k^8) // another argument
	case opAnd:
		add(op, 0, 0, ^uint32(0))
		add(op, 0, 0, k<<1)
		add(op, 0, 0, k>>1)
	case opReturn:
		add(op, 0, 0, uint32(eval.Errno(95)))
	case opJump:
		add(op, 0, 0, k+1)
		add(op, 0, 0, k-1)
	case opIfAtLeast:
		add(opIfAbove, jt, jf, k)
		fallthrough
	case opIfEqual:
		add(op, jf, jt, k)
		add(op, jt+1, jf, k)
		add(op, jt, jf+1, k)
		add(op, jt, jf, k+1)
		add(op, jt, jf, k-1)
	}
	return out
}

type pair struct{ ours, theirs []byte }

// pairs returns the embedded filters of goarch and libseccomp's.
func pairs(t testing.TB, goarch string) map[string]pair {
	t.Helper()
	set, err := seccomp.Filters(goarch)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := compileOracle(goarch)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]pair{
		"allow": {set.Allow, oracle["allow"]}, "deny": {set.Deny, oracle["deny"]}, "init": {set.Init, oracle["init"]},
	}
}

func answer(t *testing.T, e *eval.Evaluator, in input) eval.Action {
	t.Helper()
	a, err := e.Run(in.arch, in.nr, in.args)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inputs returns the calls on which the pair must agree.
func inputs(t *testing.T, goarch string, p pair) []input {
	t.Helper()
	native := seccomp.AuditArch(goarch)
	random := rand.New(rand.NewPCG(0x5eed, 0))
	numbers := numbers(slices.Concat(constants(t, p.ours), constants(t, p.theirs)))
	rules := map[string][][]seccomp.Match{}
	probes := [][6]uint64{{}}
	for _, s := range slices.Concat(seccomp.Permits(goarch), seccomp.Denies(goarch)) {
		for _, r := range s.Rules {
			rules[r.Syscall] = append(rules[r.Syscall], r.Match)
			probes = append(probes, exactly(r.Match))
		}
	}
	var out []input
	add := func(arch, nr uint32, args [6]uint64) { out = append(out, input{arch, nr, args}) }
	for _, nr := range numbers {
		add(native, nr, randomArgs(random))
		for i, args := range probes {
			if i == 0 || nr < 1024 {
				add(native, nr, args)
			}
		}
	}
	for i, nr := range numbers {
		for j, arch := range foreign(native) {
			if j < realArches || i%16 == 0 {
				add(arch, nr, randomArgs(random))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		nr, _ := seccomp.Number(goarch, name)
		for _, args := range arguments(rules[name], random) {
			add(native, nr, args)
		}
	}
	return out
}

// exactly returns arguments to which a rule applies.
func exactly(rule []seccomp.Match) (args [6]uint64) {
	for _, m := range rule {
		args[m.Arg] = uint64(m.Value)
	}
	return args
}

// numbers are those that tests visit, and the constants and their neighbours. As
// a number is only ever compared with a constant, for equality or order, two
// filters that agree on these agree on all 2^32.
func numbers(constants []uint32) []uint32 {
	seen := map[uint32]bool{}
	for n := range uint32(1024) {
		for _, nr := range []uint32{n, seccomp.X32Bit | n, -n, 0x80000000 | n, seccomp.X32Bit - 1 - n, 1<<31 - 1 - n} {
			seen[nr] = true
		}
	}
	for _, k := range constants {
		seen[k-1], seen[k], seen[k+1] = true, true, true
	}
	return slices.Sorted(maps.Keys(seen))
}

const realArches = 3

// foreign returns architecture values that are not native: first the other real
// ones of both families, then the edges, and the native one with each bit flipped.
func foreign(native uint32) []uint32 {
	const i386, arm = 0x40000003, 0x40000028
	out := []uint32{i386, arm, seccomp.AuditArchX8664, seccomp.AuditArchAarch64, 0, 1, native - 1, native + 1, ^uint32(0)}
	for bit := range 32 {
		out = append(out, native^1<<bit)
	}
	return slices.DeleteFunc(out, func(a uint32) bool { return a == native })
}

// arguments returns arguments for a call with rules: every combination of the
// values that rules compare each argument with, and from each of them, one
// argument at a time, its neighbours, each bit flipped, upper halves, random
// values.
func arguments(rules [][]seccomp.Match, random *rand.Rand) [][6]uint64 {
	values := map[uint]map[uint64]bool{}
	for _, r := range rules {
		for _, m := range r {
			if values[m.Arg] == nil {
				values[m.Arg] = map[uint64]bool{0: true, 0xffffffff: true}
			}
			values[m.Arg][uint64(m.Value)] = true
			values[m.Arg][uint64(m.Mask)] = true
		}
	}
	bases := [][6]uint64{{}}
	for _, arg := range slices.Sorted(maps.Keys(values)) {
		var next [][6]uint64
		for _, b := range bases {
			for _, v := range slices.Sorted(maps.Keys(values[arg])) {
				b[arg] = v
				next = append(next, b)
			}
		}
		bases = next
	}
	var out [][6]uint64
	for _, b := range bases {
		out = append(out, b)
		for arg := range b {
			for _, v := range around(b[arg], random) {
				a := b
				a[arg] = v
				out = append(out, a)
			}
		}
		for _, upper := range uppers {
			a := b
			for i := range a {
				a[i] |= upper
			}
			out = append(out, a)
		}
	}
	for range 2000 {
		out = append(out, randomArgs(random))
	}
	return out
}

var uppers = []uint64{1 << 32, 1 << 63, 0xffffffff << 32, 0xffff << 32, 0xaaaaaaaa << 32, 0x7fffffff << 32}

func around(v uint64, random *rand.Rand) []uint64 {
	out := []uint64{v - 1, v + 1, ^v, v << 32, v<<32 | v, random.Uint64(), random.Uint64()<<32 | v}
	for bit := range 64 {
		out = append(out, v^1<<bit)
	}
	for _, u := range uppers {
		out = append(out, v|u)
	}
	return out
}

func randomArgs(random *rand.Rand) (args [6]uint64) {
	for i := range args {
		args[i] = random.Uint64()
	}
	return args
}

// constants returns what a program compares with. It holds the program to the
// instructions that the reasoning of numbers is about: no mask on a number.
func constants(t *testing.T, prog []byte) []uint32 {
	t.Helper()
	var out []uint32
	loaded := uint32(0)
	for i, insn := range decode(t, prog) {
		switch insn.Op {
		case opLoad:
			loaded = insn.K
		case opIfEqual, opIfAtLeast, opIfAbove:
			out = append(out, insn.K)
		case opAnd:
			if loaded < 16 {
				t.Fatalf("instruction %d masks the number", i)
			}
		case opReturn, opJump:
		default:
			t.Fatalf("instruction %d: %#x", i, insn.Op)
		}
	}
	return out
}
