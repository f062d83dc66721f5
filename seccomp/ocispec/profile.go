// Package ocispec says the system call policy in the terms of an OCI runtime
// specification. It is apart from package seccomp because that one is on the
// launch path: the OCI types cost start-up, and building the form takes longer
// than loading the filters.
package ocispec

import (
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/seccomp"
)

const (
	eperm  uint = 1
	enosys uint = 38
)

// Profile returns the policy of goarch in the form of an OCI runtime
// specification, nil for an unsupported architecture.
//
// OCI has one filter, in which an exception from an allowed call can only be
// said by allowing all else. So every deny rule appears as its complement: a
// set of masked comparisons of which one holds for each other value. The form
// is exact but for one thing: a number that the runtime's libseccomp can't name
// answers EPERM or ENOSYS, as that runtime likes.
func Profile(goarch string) *specs.LinuxSeccomp {
	arch := map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}[goarch]
	if arch == "" {
		return nil
	}
	denied, hidden := eperm, enosys
	s := &specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: &denied,
		Architectures:   []specs.Arch{arch},
	}
	conditional := conditions(goarch)
	for _, g := range seccomp.Groups(goarch) {
		names := slices.DeleteFunc(slices.Clone(g.Syscalls), func(n string) bool { return conditional[n] != nil })
		if len(names) > 0 {
			s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow})
		}
		for _, n := range g.Syscalls {
			for _, m := range conditional[n] {
				s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{
					Names: []string{n}, Action: specs.ActAllow, Args: ociArgs(m),
				})
			}
		}
	}
	s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{
		Names: seccomp.Hidden().Syscalls, Action: specs.ActErrno, ErrnoRet: &hidden,
	})
	return s
}

// conditions returns, by call, the argument matches under which it is allowed.
func conditions(goarch string) map[string][][]seccomp.Match {
	out := map[string][][]seccomp.Match{}
	for _, s := range seccomp.Permits(goarch) {
		for _, r := range s.Rules {
			out[r.Syscall] = append(out[r.Syscall], r.Match)
		}
	}
	denied := map[string][][]seccomp.Match{}
	for _, s := range seccomp.Denies(goarch) {
		for _, r := range s.Rules {
			denied[r.Syscall] = append(denied[r.Syscall], r.Match)
		}
	}
	for name, d := range denied {
		out[name] = complement(d)
	}
	return out
}

// complement returns matches of which one holds exactly when none of denied
// does. It takes the forms that the policy has: rules of one match each, on one
// argument, or rules of two matches each, on the same two arguments.
func complement(denied [][]seccomp.Match) [][]seccomp.Match {
	// The values of the second argument that each value of the first one denies.
	second := map[uint32][]uint32{}
	var first []uint32
	for _, d := range denied {
		v := d[0].Value
		if second[v] == nil {
			first = append(first, v)
			second[v] = []uint32{}
		}
		if len(d) > 1 {
			second[v] = append(second[v], d[1].Value)
		}
	}
	var out [][]seccomp.Match
	for _, c := range others(denied[0][0].Arg, denied[0][0].Mask, first...) {
		out = append(out, []seccomp.Match{c})
	}
	for _, v := range first {
		if len(second[v]) == 0 {
			continue
		}
		is := seccomp.Match{Arg: denied[0][0].Arg, Mask: denied[0][0].Mask, Value: v}
		for _, c := range others(denied[0][1].Arg, denied[0][1].Mask, second[v]...) {
			out = append(out, []seccomp.Match{is, c})
		}
	}
	return out
}

// others splits the values that differ from all given ones under mask into
// prefixes: it walks the binary tree of the values from the highest bit and
// takes every branch that none of them is on.
func others(arg uint, mask uint32, values ...uint32) []seccomp.Match {
	var out []seccomp.Match
	var walk func(bit int, seen, prefix uint32, in []uint32)
	walk = func(bit int, seen, prefix uint32, in []uint32) {
		if len(in) == 0 {
			out = append(out, seccomp.Match{Arg: arg, Mask: seen, Value: prefix})
			return
		}
		for ; bit >= 0; bit-- {
			b := uint32(1) << bit
			if mask&b == 0 {
				continue
			}
			var zero, one []uint32
			for _, v := range in {
				if v&b == 0 {
					zero = append(zero, v)
				} else {
					one = append(one, v)
				}
			}
			walk(bit-1, seen|b, prefix, zero)
			walk(bit-1, seen|b, prefix|b, one)
			return
		}
	}
	walk(31, 0, 0, values)
	return out
}

func ociArgs(m []seccomp.Match) []specs.LinuxSeccompArg {
	var out []specs.LinuxSeccompArg
	for _, c := range m {
		out = append(out, specs.LinuxSeccompArg{
			Index: c.Arg, Value: uint64(c.Mask), ValueTwo: uint64(c.Value), Op: specs.OpMaskedEqual,
		})
	}
	return out
}
