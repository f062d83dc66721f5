package eval_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/seccomp"
	"github.com/sbxrun/sbxrun/seccomp/eval"
)

var (
	eperm  = eval.Errno(syscall.EPERM)
	enosys = eval.Errno(syscall.ENOSYS)
)

// stack is a program's two filters, ready to run.
type stack struct {
	goarch      string
	allow, deny *eval.Evaluator
}

func load(t testing.TB, goarch string) stack {
	t.Helper()
	set, err := seccomp.Filters(goarch)
	if err != nil {
		t.Fatal(err)
	}
	return stack{goarch, prepare(t, set.Allow), prepare(t, set.Deny)}
}

func prepare(t testing.TB, prog []byte) *eval.Evaluator {
	t.Helper()
	e, err := eval.New(prog)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func run(t testing.TB, e *eval.Evaluator, arch, nr uint32, args [6]uint64) eval.Action {
	t.Helper()
	a, err := e.Run(arch, nr, args)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s stack) run(t testing.TB, arch, nr uint32, args [6]uint64) eval.Action {
	t.Helper()
	return eval.Strictest(run(t, s.allow, arch, nr, args), run(t, s.deny, arch, nr, args))
}

func (s stack) call(t testing.TB, name string, args ...uint64) eval.Action {
	t.Helper()
	nr, ok := seccomp.Number(s.goarch, name)
	if !ok {
		t.Fatalf("%s: no call %s", s.goarch, name)
	}
	var a [6]uint64
	copy(a[:], args)
	return s.run(t, seccomp.AuditArch(s.goarch), nr, a)
}

func each(t *testing.T, f func(*testing.T, stack)) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) { f(t, load(t, arch)) })
	}
}

// numbers are all that a test visits: the tables and beyond, the x32 range,
// negative ones, the edges.
func numbers() []uint32 {
	var out []uint32
	for n := range uint32(601) {
		out = append(out, n, seccomp.X32Bit|n, -n, 0x80000000|n, 0x3fffffff-n)
	}
	return out
}

// TestEveryNumber compares the stack's answer with the groups. Arguments are
// zero: calls with argument rules are tested by TestArguments.
func TestEveryNumber(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		want := map[uint32]eval.Action{}
		put := func(groups []seccomp.Group, a eval.Action) {
			for _, g := range groups {
				for _, n := range g.Syscalls {
					nr, _ := seccomp.Number(s.goarch, n)
					want[nr] = a
				}
			}
		}
		put(seccomp.Groups(s.goarch), eval.Allow)
		put(seccomp.Forbidden(s.goarch), eperm)
		for _, n := range []string{"socket", "socketpair", "arch_prctl"} { // zero is none of their values
			if nr, ok := seccomp.Number(s.goarch, n); ok {
				want[nr] = eperm
			}
		}
		for _, nr := range numbers() {
			w, known := want[nr]
			if !known {
				w = enosys
			}
			if got := s.run(t, seccomp.AuditArch(s.goarch), nr, [6]uint64{}); got != w {
				t.Errorf("%d (%s): %v, want %v", int32(nr), seccomp.Name(s.goarch, nr), got, w)
			}
		}
	})
}

func TestForeignArchitecturesAreKilled(t *testing.T) {
	const i386, arm, aarch64be = 0x40000003, 0x40000028, 0x800000b7
	each(t, func(t *testing.T, s stack) {
		for _, arch := range []uint32{i386, arm, aarch64be, 0, ^uint32(0), seccomp.AuditArchX8664, seccomp.AuditArchAarch64} {
			if arch == seccomp.AuditArch(s.goarch) {
				continue
			}
			for _, nr := range numbers() {
				if got := s.run(t, arch, nr, [6]uint64{}); got != eval.KillProcess {
					t.Fatalf("architecture %#x, number %d: %v", arch, nr, got)
				}
			}
		}
	})
}

func TestInitFilter(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		set, err := seccomp.Filters(arch)
		if err != nil {
			t.Fatal(err)
		}
		e := prepare(t, set.Init)
		names := []string{
			"read", "write", "sendmsg", "recvmsg", "sendto", "wait4", "waitid", "close", "exit", "exit_group",
			"rt_sigreturn", "rt_sigaction", "rt_sigprocmask", "poll", "ppoll", "kill", "restart_syscall", "getpid",
		}
		for _, nr := range numbers() {
			want := eval.KillProcess
			if name := seccomp.Name(arch, nr); name != "" && slices.Contains(names, name) {
				want = eval.Allow
			}
			if got := run(t, e, seccomp.AuditArch(arch), nr, [6]uint64{}); got != want {
				t.Errorf("%s: %d: %v, want %v", arch, int32(nr), got, want)
			}
		}
		if got := run(t, e, 0x40000003, 1, [6]uint64{}); got != eval.KillProcess {
			t.Errorf("%s: i386: %v", arch, got)
		}
	}
}

// TestArguments: each line is a call, its arguments, and whether it is
// refused. Every line is tried again with all upper halves set, which the
// kernel ignores.
func TestArguments(t *testing.T) {
	const (
		cloexec, nonblock       = 0x80000, 0x800
		thread                  = 0x3d0f00 // what pthread_create passes
		vforkFlags              = 0x4111   // CLONE_VM|CLONE_VFORK|SIGCHLD
		tcp, udp, icmp, udplite = 6, 17, 1, 136
		sctp, mptcp             = 132, 262
		neg                     = 0xffffffff
		okay, refused           = false, true
	)
	each(t, func(t *testing.T, s stack) {
		for _, c := range []struct {
			name string
			deny bool
			args []uint64
		}{
			{"socket", okay, []uint64{1, 1, 0}}, {"socket", okay, []uint64{1, 2 | cloexec, 0}},
			{"socket", okay, []uint64{1, 5 | cloexec | nonblock, 0}}, {"socket", okay, []uint64{1, 1, 1}},
			{"socket", refused, []uint64{1, 3, 0}}, {"socket", refused, []uint64{1, 4, 0}}, {"socket", refused, []uint64{1, 0, 0}},
			{"socket", okay, []uint64{2, 1, 0}}, {"socket", okay, []uint64{2, 1 | cloexec | nonblock, tcp}},
			{"socket", okay, []uint64{2, 2, 0}}, {"socket", okay, []uint64{2, 2 | cloexec, udp}},
			{"socket", okay, []uint64{10, 1, 0}}, {"socket", okay, []uint64{10, 1, tcp}},
			{"socket", okay, []uint64{10, 2, 0}}, {"socket", okay, []uint64{10, 2, udp}},
			{"socket", refused, []uint64{2, 3, 0}}, {"socket", refused, []uint64{2, 3, icmp}},
			{"socket", refused, []uint64{2, 3 | cloexec, 255}}, {"socket", refused, []uint64{10, 3, 58}},
			{"socket", refused, []uint64{2, 10, 0}}, {"socket", refused, []uint64{2, 2, icmp}},
			{"socket", refused, []uint64{10, 2, 58}}, {"socket", refused, []uint64{2, 2, udplite}},
			{"socket", refused, []uint64{2, 1, sctp}}, {"socket", refused, []uint64{2, 5, sctp}}, {"socket", refused, []uint64{2, 5, 0}},
			{"socket", refused, []uint64{2, 1, mptcp}}, {"socket", refused, []uint64{10, 1, mptcp}},
			{"socket", refused, []uint64{2, 1, udp}}, {"socket", refused, []uint64{2, 2, tcp}}, {"socket", refused, []uint64{2, 1, neg}},
			{"socket", okay, []uint64{16, 3, 0}}, {"socket", okay, []uint64{16, 2 | cloexec, 0}}, {"socket", okay, []uint64{16, 3 | cloexec, 0}},
			{"socket", refused, []uint64{16, 1, 0}}, {"socket", refused, []uint64{16, 3, 9}}, {"socket", refused, []uint64{16, 3, 12}},
			{"socket", refused, []uint64{16, 2, 15}}, {"socket", refused, []uint64{17, 3, 3}}, {"socket", refused, []uint64{17, 2, 0}},
			{"socket", refused, []uint64{38, 5, 0}}, {"socket", refused, []uint64{40, 1, 0}}, {"socket", refused, []uint64{44, 3, 0}},
			{"socket", refused, []uint64{0, 1, 0}}, {"socket", refused, []uint64{neg, 1, 0}}, {"socket", refused, []uint64{0x10002, 1, 0}},
			{"socketpair", okay, []uint64{1, 1, 0}}, {"socketpair", okay, []uint64{1, 2 | cloexec, 0}}, {"socketpair", okay, []uint64{1, 5, 0}},
			{"socketpair", refused, []uint64{2, 1, 0}}, {"socketpair", refused, []uint64{30, 5, 0}}, {"socketpair", refused, []uint64{1, 3, 0}},
			{"personality", okay, []uint64{0}}, {"personality", okay, []uint64{neg}},
			{"personality", refused, []uint64{0x40000}}, {"personality", refused, []uint64{0x400000}}, {"personality", refused, []uint64{8}},
			{"personality", refused, []uint64{neg - 1}}, {"personality", refused, []uint64{0x80000000}}, {"personality", refused, []uint64{0x20000}},
			{"clone", okay, []uint64{17}}, {"clone", okay, []uint64{thread}}, {"clone", okay, []uint64{vforkFlags}}, {"clone", okay, []uint64{0x1200011}},
			{"clone", refused, []uint64{0x20011}}, {"clone", refused, []uint64{0x2000011}}, {"clone", refused, []uint64{0x4000011}},
			{"clone", refused, []uint64{0x8000011}}, {"clone", refused, []uint64{0x10000011}}, {"clone", refused, []uint64{0x20000011}},
			{"clone", refused, []uint64{0x40000011}}, {"clone", refused, []uint64{0x91}}, {"clone", refused, []uint64{thread | 0x10000000}},
			{"clone", refused, []uint64{0x7e020000}},
			{"ioctl", okay, []uint64{0, 0x5401}}, {"ioctl", okay, []uint64{0, 0x5413}}, {"ioctl", okay, []uint64{0, 0x540e}},
			{"ioctl", okay, []uint64{0, 0x80086601}}, {"ioctl", okay, []uint64{0, 0x801c581f}}, {"ioctl", okay, []uint64{0, 0x5421}},
			{"ioctl", refused, []uint64{0, 0x5412}}, {"ioctl", refused, []uint64{0, 0x541c}}, {"ioctl", refused, []uint64{0, 0x541d}},
			{"ioctl", refused, []uint64{0, 0x5423}}, {"ioctl", refused, []uint64{0, 0x40086602}}, {"ioctl", refused, []uint64{0, 0x40046602}},
			{"ioctl", refused, []uint64{0, 0x401c5820}}, {"ioctl", refused, []uint64{neg, 0x5412, neg}},
			{"fcntl", okay, []uint64{0, 0}}, {"fcntl", okay, []uint64{0, 1030}}, {"fcntl", okay, []uint64{0, 1033}}, {"fcntl", okay, []uint64{0, 1025}},
			{"fcntl", okay, []uint64{0, 1031}}, {"fcntl", okay, []uint64{0, 1039}}, {"fcntl", okay, []uint64{0, 38}},
			{"fcntl", refused, []uint64{0, 1024}}, {"fcntl", refused, []uint64{0, 1026}}, {"fcntl", refused, []uint64{0, 1040}},
			{"setsockopt", okay, []uint64{0, 6, 1}}, {"setsockopt", okay, []uint64{0, 1, 2}}, {"setsockopt", okay, []uint64{0, 1, 31}},
			{"setsockopt", okay, []uint64{0, 0, 31}}, {"setsockopt", okay, []uint64{0, 41, 26}}, {"setsockopt", refused, []uint64{0, 6, 31}},
			{"setsockopt", refused, []uint64{neg, 6, 31, neg, neg}},
			{"msgrcv", okay, []uint64{0, 0, 0, 0, 0}}, {"msgrcv", okay, []uint64{0, 0, 0, 0, 0x800}}, {"msgrcv", okay, []uint64{0, 0, 0, 0x4000, 0x1000}},
			{"msgrcv", refused, []uint64{0, 0, 0, 0, 0x4000}}, {"msgrcv", refused, []uint64{0, 0, 0, 0, 0x4800}}, {"msgrcv", refused, []uint64{0, 0, 0, 0, neg}},
			{"prctl", okay, []uint64{38, 1}}, {"prctl", okay, []uint64{15}}, {"prctl", okay, []uint64{4, 0}}, {"prctl", refused, []uint64{62, 1}},
			{"arch_prctl", okay, []uint64{0x1001}}, {"arch_prctl", okay, []uint64{0x1002}}, {"arch_prctl", okay, []uint64{0x1003}}, {"arch_prctl", okay, []uint64{0x1004}},
			{"arch_prctl", refused, []uint64{0}}, {"arch_prctl", refused, []uint64{0x1012, 0}}, {"arch_prctl", refused, []uint64{0x1023, 18}},
			{"arch_prctl", refused, []uint64{0x3001}}, {"arch_prctl", refused, []uint64{0x5001}}, {"arch_prctl", refused, []uint64{0x2001}},
		} {
			if _, ok := seccomp.Number(s.goarch, c.name); !ok {
				continue
			}
			want := eval.Allow
			if c.deny {
				want = eperm
			}
			for _, upper := range []uint64{0, 1 << 32, 0xffffffff << 32, 1 << 63} {
				args := slices.Clone(c.args)
				for i := range args {
					args[i] |= upper
				}
				if got := s.call(t, c.name, args...); got != want {
					t.Errorf("%s(%#x): %v, want %v", c.name, args, got, want)
				}
			}
		}
	})
}

// TestEveryRule tries each rule of the data itself, with each upper bit of each
// argument set in turn, and, of each compared value, each neighbour by one bit.
func TestEveryRule(t *testing.T) {
	each(t, func(t *testing.T, s stack) {
		for kind, sets := range map[string][]seccomp.RuleSet{"permit": seccomp.Permits(s.goarch), "deny": seccomp.Denies(s.goarch)} {
			answer := func(hit bool) eval.Action {
				if hit == (kind == "permit") {
					return eval.Allow
				}
				return eperm
			}
			for _, set := range sets {
				for _, r := range set.Rules {
					var args [6]uint64
					for _, m := range r.Match {
						args[m.Arg] = uint64(m.Value)
					}
					for _, m := range r.Match {
						for bit := range 64 {
							a := args
							a[m.Arg] ^= 1 << bit
							want := answer(hit(sets, r.Syscall, a))
							if got := s.call(t, r.Syscall, a[:]...); got != want {
								t.Errorf("%s %s(%#x): %v, want %v", kind, r.Name, a, got, want)
							}
							if bit >= 32 && !hit(sets, r.Syscall, a) {
								t.Errorf("%s: the upper half counts", r.Name)
							}
						}
					}
				}
			}
		}
	})
}

// hit reports whether a rule of the call applies to the arguments.
func hit(sets []seccomp.RuleSet, name string, args [6]uint64) bool {
	for _, s := range sets {
		for _, r := range s.Rules {
			if r.Syscall == name && !slices.ContainsFunc(r.Match, func(m seccomp.Match) bool {
				return uint32(args[m.Arg])&m.Mask != m.Value
			}) {
				return true
			}
		}
	}
	return false
}

func TestStrictest(t *testing.T) {
	if got := eval.Strictest(eval.Allow, eperm, eval.KillProcess, enosys); got != eval.KillProcess {
		t.Error(got)
	}
	if got := eval.Strictest(eval.Allow, eperm); got != eperm {
		t.Error(got)
	}
}

// FuzzEvaluate: no bytes make the evaluator panic.
func FuzzEvaluate(f *testing.F) {
	for _, arch := range []string{"amd64", "arm64"} {
		s, err := seccomp.Filters(arch)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Deny, uint32(seccomp.AuditArchX8664), uint32(16), uint64(0x5412))
		f.Add(s.Init, uint32(seccomp.AuditArchAarch64), uint32(0), uint64(0))
	}
	f.Fuzz(func(t *testing.T, prog []byte, arch, nr uint32, arg uint64) {
		if a, err := eval.Evaluate(prog, arch, nr, [6]uint64{arg, arg, arg}); err == nil {
			_ = a.String()
		}
	})
}

func ExampleEvaluate() {
	set, err := seccomp.Filters("amd64")
	if err != nil {
		panic(err)
	}
	ioctl, _ := seccomp.Number("amd64", "ioctl")
	a, _ := eval.Evaluate(set.Deny, seccomp.AuditArchX8664, ioctl, [6]uint64{0, 1<<32 | 0x5412})
	fmt.Println(a)
	// Output: errno EPERM
}
