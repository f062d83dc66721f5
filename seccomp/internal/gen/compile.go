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

var (
	eperm  = lib.ActErrno.SetReturnCode(int16(syscall.EPERM))
	enosys = lib.ActErrno.SetReturnCode(int16(syscall.ENOSYS))
)

// compile returns the raw filters of goarch by name.
func compile(goarch string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, build := range map[string]struct {
		otherwise lib.ScmpAction
		rules     func(*builder)
	}{
		"allow": {enosys, allow},
		"deny":  {lib.ActAllow, deny},
		"init":  {lib.ActKillProcess, initial},
	} {
		prog, err := compileOne(goarch, build.otherwise, build.rules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = prog
	}
	return out, nil
}

func compileOne(goarch string, otherwise lib.ScmpAction, rules func(*builder)) ([]byte, error) {
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
