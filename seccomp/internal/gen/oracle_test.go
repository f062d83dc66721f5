//go:build cgo && linux && amd64

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	lib "github.com/seccomp/libseccomp-golang"

	"github.com/sbxrun/sbxrun/seccomp"
)

// The oracle compiles the policy with libseccomp: the same data, but neither
// our ranges, nor our tree, nor our order of comparisons.

var (
	libEPERM  = lib.ActErrno.SetReturnCode(int16(syscall.EPERM))
	libENOSYS = lib.ActErrno.SetReturnCode(int16(syscall.ENOSYS))
)

// compileOracle returns what compile should, by libseccomp.
func compileOracle(goarch string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, build := range map[string]struct {
		otherwise lib.ScmpAction
		rules     func(*builder)
	}{
		"allow": {libENOSYS, oracleAllow},
		"deny":  {lib.ActAllow, oracleDeny},
		"init":  {lib.ActKillProcess, oracleInit},
	} {
		prog, err := compileWith(goarch, build.otherwise, build.rules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = prog
	}
	return out, nil
}

func compileWith(goarch string, otherwise lib.ScmpAction, rules func(*builder)) ([]byte, error) {
	f, err := lib.NewFilter(otherwise)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	if err := f.SetBadArchAction(lib.ActKillProcess); err != nil {
		return nil, err
	}
	// Level 2 is the binary tree over numbers.
	if err := f.SetOptimize(2); err != nil {
		return nil, err
	}
	b := &builder{f: f, goarch: goarch}
	// The filter is always built as x86-64's, with the numbers of goarch:
	// libseccomp takes the numbers of its native architecture as they are, but
	// translates them for others by name, and so fails for calls it can't name.
	if native, err := lib.GetNativeArch(); err != nil || native != lib.ArchAMD64 {
		return nil, errors.New("must run on amd64")
	}
	rules(b)
	// An x32 architecture without a rule takes libseccomp's test for x32
	// numbers away, which would answer them like a foreign architecture. They
	// fall through to the default action then, as every unknown number does.
	b.check(f.AddArch(lib.ArchX32))
	if b.err != nil {
		return nil, b.err
	}
	prog, err := export(f)
	if err != nil {
		return nil, err
	}
	return setArch(prog, seccomp.AuditArch(goarch))
}

// export returns the filter's program. It goes through a file because
// libseccomp has no export to memory before 2.6.
func export(f *lib.ScmpFilter) ([]byte, error) {
	tmp, err := os.CreateTemp("", "seccomp-*.bpf")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := f.ExportBPF(tmp); err != nil {
		return nil, err
	}
	return os.ReadFile(tmp.Name())
}

// setArch replaces the one comparison with x86-64's architecture value.
func setArch(prog []byte, arch uint32) ([]byte, error) {
	const jeq = 0x15 // BPF_JMP|BPF_JEQ|BPF_K
	from := binary.LittleEndian.AppendUint32(nil, seccomp.AuditArchX8664)
	prog = slices.Clone(prog)
	n := 0
	for insn := range slices.Chunk(prog, 8) {
		if insn[0] == jeq && bytes.Equal(insn[4:], from) {
			binary.LittleEndian.PutUint32(insn[4:], arch)
			n++
		}
	}
	if n != 1 {
		return nil, fmt.Errorf("%d comparisons of the architecture, want 1", n)
	}
	return prog, nil
}

// builder adds rules to a filter and keeps the first error.
type builder struct {
	f      *lib.ScmpFilter
	goarch string
	err    error
}

func (b *builder) check(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) add(name string, action lib.ScmpAction, conds ...lib.ScmpCondition) {
	nr, ok := seccomp.Number(b.goarch, name)
	if !ok {
		b.check(fmt.Errorf("%s: unknown call", name))
		return
	}
	var err error
	if len(conds) == 0 {
		err = b.f.AddRuleExact(lib.ScmpSyscall(nr), action)
	} else {
		err = b.f.AddRuleConditionalExact(lib.ScmpSyscall(nr), action, conds)
	}
	if err != nil {
		b.check(fmt.Errorf("%s: %w", name, err))
	}
}

func (b *builder) cond(arg uint, op lib.ScmpCompareOp, values ...uint64) lib.ScmpCondition {
	c, err := lib.MakeCondition(arg, op, values...)
	b.check(err)
	return c
}

// match adds a rule that compares low 32 bits.
func (b *builder) match(r seccomp.Rule, action lib.ScmpAction) {
	var conds []lib.ScmpCondition
	for _, m := range r.Match {
		conds = append(conds, b.cond(m.Arg, lib.CompareMaskedEqual, uint64(m.Mask), uint64(m.Value)))
	}
	b.add(r.Syscall, action, conds...)
}

func oracleAllow(b *builder) {
	permit := map[string]bool{}
	for _, s := range seccomp.Permits(b.goarch) {
		for _, r := range s.Rules {
			b.match(r, lib.ActAllow)
			permit[r.Syscall] = true
		}
	}
	for _, g := range seccomp.Groups(b.goarch) {
		for _, name := range g.Syscalls {
			if !permit[name] {
				b.add(name, lib.ActAllow)
				continue
			}
			// Otherwise EPERM, not the default: a condition that always holds.
			// libseccomp orders the comparisons of one argument so that this
			// one comes last; were it first, the call would be refused.
			b.add(name, libEPERM, b.cond(0, lib.CompareGreaterEqual, 0))
		}
	}
	for _, g := range seccomp.Forbidden(b.goarch) {
		for _, name := range g.Syscalls {
			b.add(name, libEPERM)
		}
	}
}

func oracleDeny(b *builder) {
	for _, s := range seccomp.Denies(b.goarch) {
		for _, r := range s.Rules {
			b.match(r, libEPERM)
		}
	}
}

func oracleInit(b *builder) {
	for _, name := range seccomp.Init(b.goarch).Syscalls {
		b.add(name, lib.ActAllow)
	}
}
