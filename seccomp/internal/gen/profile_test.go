//go:build cgo && linux && amd64

package main

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	lib "github.com/seccomp/libseccomp-golang"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
	"github.com/sbxrun/sbxrun/seccomp/ocispec"
)

var arches = map[string]lib.ScmpArch{"amd64": lib.ArchAMD64, "arm64": lib.ArchARM64}

// TestNumbersAgreeWithLibseccomp compares our tables with libseccomp's own,
// in both directions where it knows a name.
func TestNumbersAgreeWithLibseccomp(t *testing.T) {
	for goarch, arch := range arches {
		known := 0
		for nr := range uint32(600) {
			theirs, err := lib.ScmpSyscall(nr).GetNameByArch(arch)
			if err != nil {
				continue
			}
			known++
			if ours := seccomp.Name(goarch, nr); ours != theirs {
				t.Errorf("%s: %d is %q, libseccomp has %q", goarch, nr, ours, theirs)
			}
		}
		if known < 300 {
			t.Errorf("%s: libseccomp names only %d calls", goarch, known)
		}
	}
}

// TestProfileEqualsFilters compiles the OCI form as an OCI runtime does and
// compares its answers with the stack's around every value of every rule.
func TestProfileEqualsFilters(t *testing.T) {
	for goarch := range arches {
		profile := compileProfile(t, goarch)
		set, err := seccomp.Filters(goarch)
		if err != nil {
			t.Fatal(err)
		}
		allow, deny := evaluator(t, set.Allow), evaluator(t, set.Deny)
		compare := func(nr uint32, args [6]uint64) {
			t.Helper()
			var got [3]eval.Action
			for i, e := range []*eval.Evaluator{profile, allow, deny} {
				a, err := e.Run(seccomp.AuditArch(goarch), nr, args)
				if err != nil {
					t.Fatal(err)
				}
				got[i] = a
			}
			// Unknown numbers are left to the OCI runtime.
			if want := eval.Strictest(got[1], got[2]); got[0] != want && seccomp.Name(goarch, nr) != "" {
				t.Errorf("%s %s(%#x): profile %v, filters %v", goarch, seccomp.Name(goarch, nr), args, got[0], want)
			}
		}
		for nr := range uint32(600) {
			compare(nr, [6]uint64{})
		}
		for _, sets := range [][]seccomp.RuleSet{seccomp.Permits(goarch), seccomp.Denies(goarch)} {
			for _, s := range sets {
				for _, r := range s.Rules {
					nr, _ := seccomp.Number(goarch, r.Syscall)
					var args [6]uint64
					for _, m := range r.Match {
						args[m.Arg] = uint64(m.Value)
					}
					compare(nr, args)
					for _, m := range r.Match {
						for bit := range 64 {
							a := args
							a[m.Arg] ^= 1 << bit
							compare(nr, a)
						}
					}
				}
			}
		}
	}
}

func evaluator(t *testing.T, prog []byte) *eval.Evaluator {
	t.Helper()
	e, err := eval.New(prog)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// compileProfile does what runc does (libcontainer/seccomp, matchCall): one rule
// for each entry, its arguments joined by "and".
func compileProfile(t *testing.T, goarch string) *eval.Evaluator {
	t.Helper()
	profile := ocispec.Profile(goarch)
	prog, err := compileWith(goarch, lib.ActErrno.SetReturnCode(int16(*profile.DefaultErrnoRet)), func(b *builder) {
		for _, s := range profile.Syscalls {
			action := lib.ActAllow
			if s.Action == specs.ActErrno {
				action = lib.ActErrno.SetReturnCode(int16(*s.ErrnoRet))
			}
			var conds []lib.ScmpCondition
			for _, a := range s.Args {
				if a.Op != specs.OpMaskedEqual {
					t.Errorf("operator %s", a.Op)
				}
				conds = append(conds, b.cond(a.Index, lib.CompareMaskedEqual, a.Value, a.ValueTwo))
			}
			for _, n := range s.Names {
				b.add(n, action, conds...)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return evaluator(t, prog)
}
