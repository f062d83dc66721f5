package seccomp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxrun/sbxrun/errdef"
)

var arches = []string{"amd64", "arm64"}

// TestPolicyCoversKernelTables: every call of the kernel's tables is in exactly
// one group, and every name in a group exists somewhere.
func TestPolicyCoversKernelTables(t *testing.T) {
	used := map[string]bool{}
	for _, arch := range arches {
		where := map[string]string{}
		for _, g := range slices.Concat(Groups(arch), Forbidden(arch), []Group{Hidden()}) {
			if g.Reason == "" || g.Name == "" {
				t.Errorf("group %q: no name or no reason", g.Name)
			}
			for _, n := range g.Syscalls {
				if other, dup := where[n]; dup {
					t.Errorf("%s: %s is in groups %s and %s", arch, n, other, g.Name)
				}
				where[n] = g.Name
				used[n] = true
			}
		}
		for nr, n := range table(arch) {
			if n != "" && where[n] == "" {
				t.Errorf("%s: %s (%d) is in no group", arch, n, nr)
			}
		}
		for _, n := range Init(arch).Syscalls {
			if !slices.ContainsFunc(Groups(arch), func(g Group) bool { return slices.Contains(g.Syscalls, n) }) {
				t.Errorf("%s: PID 1 may call %s, which programs may not", arch, n)
			}
		}
	}
	for _, g := range slices.Concat(allowGroups, forbidGroups) {
		for _, n := range g.Syscalls {
			if !used[n] {
				t.Errorf("group %s: %s exists on no architecture", g.Name, n)
			}
		}
	}
}

func TestRulesAreUsefulAndUnique(t *testing.T) {
	for _, arch := range arches {
		seen := map[string]string{}
		side := map[string]string{}
		for kind, sets := range map[string][]RuleSet{"permit": Permits(arch), "deny": Denies(arch)} {
			for _, s := range sets {
				if s.Reason == "" {
					t.Errorf("%s: a rule set without a reason: %v", arch, s.Rules)
				}
				for _, r := range s.Rules {
					if k := side[r.Syscall]; k != "" && k != kind {
						t.Errorf("%s: %s has both permit and deny rules", arch, r.Syscall)
					}
					side[r.Syscall] = kind
					if !slices.ContainsFunc(Groups(arch), func(g Group) bool { return slices.Contains(g.Syscalls, r.Syscall) }) {
						t.Errorf("%s: rule %s on %s, which is not allowed at all", arch, r.Name, r.Syscall)
					}
					key := r.Syscall + cmp.Diff(nil, r.Match)
					if seen[key] != "" {
						t.Errorf("%s: %s is the same rule as %s", arch, r.Name, seen[key])
					}
					seen[key] = r.Name
				}
			}
		}
	}
}

func TestFilters(t *testing.T) {
	for _, arch := range arches {
		s, err := Filters(arch)
		if err != nil {
			t.Fatal(err)
		}
		for name, prog := range map[string][]byte{"allow": s.Allow, "deny": s.Deny, "init": s.Init} {
			insns, err := Decode(prog)
			if err != nil {
				t.Errorf("%s %s: %v", arch, name, err)
			}
			t.Logf("%s %s: %d instructions", arch, name, len(insns))
		}
		// Callers can't spoil the embedded filters.
		s.Allow[0] ^= 0xff
		if again, _ := Filters(arch); again.Allow[0] == s.Allow[0] {
			t.Errorf("%s: a caller's change reached the embedded filter", arch)
		}
	}
	for _, arch := range []string{"", "386", "riscv64", "AMD64"} {
		if _, err := Filters(arch); !errdef.Is(err, errdef.Unsupported) {
			t.Errorf("Filters(%q): %v, want an unsupported error", arch, err)
		}
		if Groups(arch) != nil || Forbidden(arch) != nil || AuditArch(arch) != 0 || Init(arch).Name != "" {
			t.Errorf("%q: has a policy", arch)
		}
	}
}

func TestDecodeRefusesBadLengths(t *testing.T) {
	for _, n := range []int{0, 1, 7, 9, 8*MaxInstructions + 8} {
		if _, err := Decode(make([]byte, n)); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("Decode of %d bytes: %v, want an invalid error", n, err)
		}
	}
	if _, err := Decode(make([]byte, 8*MaxInstructions)); err != nil {
		t.Error(err)
	}
}

func TestNumbers(t *testing.T) {
	for _, arch := range arches {
		for nr, want := range table(arch) {
			if got := Name(arch, uint32(nr)); got != want {
				t.Errorf("%s: Name(%d) = %q, want %q", arch, nr, got, want)
			}
			if want == "" {
				continue
			}
			if got, ok := Number(arch, want); !ok || got != uint32(nr) {
				t.Errorf("%s: Number(%q) = %d, %v, want %d", arch, want, got, ok, nr)
			}
		}
		for _, nr := range []uint32{600, X32Bit, ^uint32(0)} {
			if got := Name(arch, nr); got != "" {
				t.Errorf("%s: Name(%d) = %q", arch, nr, got)
			}
		}
		if _, ok := Number(arch, ""); ok {
			t.Errorf("%s: the empty name has a number", arch)
		}
	}
}

// TestThreats holds the lists of the threat model, written out a second time.
func TestThreats(t *testing.T) {
	closed := strings.Fields(`io_uring_setup io_uring_enter io_uring_register userfaultfd bpf perf_event_open
		add_key request_key keyctl unshare setns mount umount2 open_tree open_tree_attr move_mount fsopen fsconfig
		fsmount fspick mount_setattr listmount statmount chroot pivot_root name_to_handle_at open_by_handle_at ptrace
		process_vm_readv process_vm_writev pidfd_getfd process_madvise kcmp fanotify_init fanotify_mark quotactl
		quotactl_fd swapon swapoff kexec_load kexec_file_load init_module finit_module delete_module reboot acct syslog
		clock_settime settimeofday clock_adjtime adjtimex sethostname setdomainname iopl ioperm modify_ldt mbind
		set_mempolicy get_mempolicy migrate_pages move_pages set_mempolicy_home_node memfd_secret vmsplice uselib ustat
		sysfs`)
	open := strings.Fields(`clone fork vfork execve execveat rt_sigaction kill tgkill timer_create timerfd_create
		epoll_create1 epoll_pwait2 eventfd2 signalfd4 inotify_init1 mmap mprotect memfd_create shmget semget msgget
		mq_open statx faccessat2 fchmodat2 openat2 close_range copy_file_range sendfile splice getrandom membarrier rseq
		futex futex_waitv futex_wake futex_wait futex_requeue pidfd_open waitid sched_getaffinity sched_setaffinity
		mlock mlockall prctl prlimit64 mseal socket socketpair`)
	for _, arch := range arches {
		for _, n := range closed {
			if in(Groups(arch), n) {
				t.Errorf("%s: %s is allowed", arch, n)
			}
		}
		for _, n := range open {
			if _, ok := Number(arch, n); ok && !in(Groups(arch), n) {
				t.Errorf("%s: %s is not allowed", arch, n)
			}
		}
	}
}

func in(groups []Group, name string) bool {
	return slices.ContainsFunc(groups, func(g Group) bool { return slices.Contains(g.Syscalls, name) })
}

// FuzzDecode: no bytes make the decoder panic.
func FuzzDecode(f *testing.F) {
	for _, arch := range arches {
		s, _ := Filters(arch)
		f.Add(s.Init)
	}
	f.Fuzz(func(t *testing.T, prog []byte) {
		insns, err := Decode(prog)
		if err == nil && len(insns)*8 != len(prog) {
			t.Errorf("%d instructions of %d bytes", len(insns), len(prog))
		}
	})
}
