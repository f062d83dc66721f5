package ocispec_test

import (
	"slices"
	"testing"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/ocispec"
)

// That a profile answers as the filters do is tested where libseccomp can
// compile it (internal/gen, TestProfileEqualsFilters).

func TestProfileNamesEveryAllowedCall(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := ocispec.Profile(arch)
		if p == nil {
			t.Fatalf("%s: no profile", arch)
		}
		named := map[string]bool{}
		for _, s := range p.Syscalls {
			for _, n := range s.Names {
				named[n] = true
			}
		}
		for _, g := range seccomp.Groups(arch) {
			for _, n := range g.Syscalls {
				if !named[n] {
					t.Errorf("%s: %s is missing", arch, n)
				}
			}
		}
		for _, g := range seccomp.Forbidden(arch) {
			if i := slices.IndexFunc(g.Syscalls, func(n string) bool { return named[n] }); i >= 0 {
				t.Errorf("%s: %s is named", arch, g.Syscalls[i])
			}
		}
	}
}

func TestProfileOfUnsupportedArchitecture(t *testing.T) {
	for _, arch := range []string{"", "386", "riscv64", "AMD64"} {
		if ocispec.Profile(arch) != nil {
			t.Errorf("%q: has a profile", arch)
		}
	}
}

func BenchmarkProfile(b *testing.B) {
	for b.Loop() {
		ocispec.Profile("amd64")
	}
}
