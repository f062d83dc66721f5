package seccomp

import "slices"

// Match compares the low 32 bits of one argument: arg&Mask == Value.
type Match struct {
	Arg         uint
	Mask, Value uint32
}

// Rule qualifies an allowed call by its arguments. It applies when all of its
// matches hold.
type Rule struct {
	Syscall string
	// Name is the constant or form, as in the call's manual page.
	Name  string
	Match []Match
}

// RuleSet is the argument rules of one reason.
type RuleSet struct {
	Reason string
	Rules  []Rule
}

// The rule tables are functions, not variables, to cost nothing at start-up.

const all = ^uint32(0)

// Socket types, families and protocols (socket(2)), equal on both
// architectures. typeMask is the kernel's SOCK_TYPE_MASK; it refuses bits above
// other than SOCK_CLOEXEC and SOCK_NONBLOCK itself.
const (
	afUnix, afInet, afInet6, afNetlink                uint32 = 1, 2, 10, 16
	sockStream, sockDgram, sockRaw, sockSeqpacket     uint32 = 1, 2, 3, 5
	typeMask, protoTCP, protoUDP, protoRoute, anyProt uint32 = 0xf, 6, 17, 0, 0
	solSocket                                         uint32 = 1 // of setsockopt(2)
)

// newNamespaces are the CLONE_NEW* bits (clone(2)): NEWTIME, NEWNS, NEWCGROUP,
// NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
const newNamespaces = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000

// permitRules: a call named here is allowed only if one of its rules applies,
// else it answers EPERM. They are part of the allow filter.
func permitRules() []RuleSet {
	return []RuleSet{
		{"threads and processes, but no new namespace", []Rule{
			{"clone", "no CLONE_NEW*", []Match{{0, newNamespaces, 0}}},
		}},
		{"thread-local storage of C libraries; CET and AMX requests fail and are then done without", []Rule{
			{"arch_prctl", "ARCH_SET_GS", eq(0, 0x1001)},
			{"arch_prctl", "ARCH_SET_FS", eq(0, 0x1002)},
			{"arch_prctl", "ARCH_GET_FS", eq(0, 0x1003)},
			{"arch_prctl", "ARCH_GET_GS", eq(0, 0x1004)},
		}},
		{"the default personality; others switch off address randomisation or W^X", []Rule{
			{"personality", "PER_LINUX", eq(0, 0)},
			{"personality", "query", eq(0, 0xffffffff)},
		}},
		{"Unix sockets; a raw one would only be an alias of the datagram type", []Rule{
			{"socket", "AF_UNIX SOCK_STREAM", sock(afUnix, sockStream)},
			{"socket", "AF_UNIX SOCK_DGRAM", sock(afUnix, sockDgram)},
			{"socket", "AF_UNIX SOCK_SEQPACKET", sock(afUnix, sockSeqpacket)},
		}},
		// socketpair creates sockets of any family before it asks whether the
		// family knows pairs (net/socket.c, __sys_socketpair), modules loaded included.
		{"pairs are Unix sockets", []Rule{
			{"socketpair", "AF_UNIX SOCK_STREAM", sock(afUnix, sockStream)},
			{"socketpair", "AF_UNIX SOCK_DGRAM", sock(afUnix, sockDgram)},
			{"socketpair", "AF_UNIX SOCK_SEQPACKET", sock(afUnix, sockSeqpacket)},
		}},
		{"TCP and UDP; not raw, ICMP, SCTP, MPTCP, UDP-Lite", []Rule{
			{"socket", "AF_INET TCP by default", sock(afInet, sockStream, anyProt)},
			{"socket", "AF_INET TCP", sock(afInet, sockStream, protoTCP)},
			{"socket", "AF_INET UDP by default", sock(afInet, sockDgram, anyProt)},
			{"socket", "AF_INET UDP", sock(afInet, sockDgram, protoUDP)},
			{"socket", "AF_INET6 TCP by default", sock(afInet6, sockStream, anyProt)},
			{"socket", "AF_INET6 TCP", sock(afInet6, sockStream, protoTCP)},
			{"socket", "AF_INET6 UDP by default", sock(afInet6, sockDgram, anyProt)},
			{"socket", "AF_INET6 UDP", sock(afInet6, sockDgram, protoUDP)},
		}},
		{"getifaddrs lists interfaces through NETLINK_ROUTE", []Rule{
			{"socket", "AF_NETLINK SOCK_RAW NETLINK_ROUTE", sock(afNetlink, sockRaw, protoRoute)},
			{"socket", "AF_NETLINK SOCK_DGRAM NETLINK_ROUTE", sock(afNetlink, sockDgram, protoRoute)},
		}},
	}
}

// denyRules: a call with one of these arguments answers EPERM though it is
// allowed. They are the deny filter.
func denyRules() []RuleSet {
	return []RuleSet{
		{"injects input into a terminal, or takes it over (CVE-2016-2568, CVE-2023-28100)", []Rule{
			{"ioctl", "TIOCSTI", eq(1, 0x5412)},
			{"ioctl", "TIOCLINUX", eq(1, 0x541c)},
			{"ioctl", "TIOCCONS", eq(1, 0x541d)},
			{"ioctl", "TIOCSETD", eq(1, 0x5423)},
		}},
		{"inode flags and project ids outlive the sandbox on a host directory", []Rule{
			{"ioctl", "FS_IOC_SETFLAGS", eq(1, 0x40086602)},
			{"ioctl", "FS_IOC32_SETFLAGS", eq(1, 0x40046602)},
			{"ioctl", "FS_IOC_FSSETXATTR", eq(1, 0x401c5820)},
		}},
		// F_SETDELEG is new in Linux 6.19 (F_LINUX_SPECIFIC_BASE + 16).
		{"a lease or delegation blocks the host's open for lease-break-time; F_NOTIFY is its obsolete sibling", []Rule{
			{"fcntl", "F_SETLEASE", eq(1, 1024)},
			{"fcntl", "F_NOTIFY", eq(1, 1026)},
			{"fcntl", "F_SETDELEG", eq(1, 1040)},
		}},
		{"upper layer protocols load modules (tls, espintcp, smc) with a record of kernel holes", []Rule{
			{"setsockopt", "TCP_ULP", append(eq(1, protoTCP), eq(2, 31)...)},
		}},
		{"MSG_COPY peeks by index; only checkpointing needs it", []Rule{
			{"msgrcv", "MSG_COPY", []Match{{4, 0x4000, 0x4000}}},
		}},
		// See hiddenGroup.
		{"compiles a filter into kernel code, charged to nobody and through one lock of the whole machine", []Rule{
			{"prctl", "PR_SET_SECCOMP", eq(0, 22)},
			{"setsockopt", "SO_ATTACH_FILTER", append(eq(1, solSocket), eq(2, 26)...)},
			{"setsockopt", "SO_ATTACH_BPF", append(eq(1, solSocket), eq(2, 50)...)},
			{"setsockopt", "SO_ATTACH_REUSEPORT_CBPF", append(eq(1, solSocket), eq(2, 51)...)},
			{"setsockopt", "SO_ATTACH_REUSEPORT_EBPF", append(eq(1, solSocket), eq(2, 52)...)},
		}},
		// Netlink and UDP buffers are kernel memory that no cgroup is charged for;
		// at their default size 1,000 sockets hold 200 MiB, at the largest 8 GiB.
		{"larger socket buffers: kernel memory outside of the memory limit", []Rule{
			{"setsockopt", "SO_SNDBUF", append(eq(1, solSocket), eq(2, 7)...)},
			{"setsockopt", "SO_RCVBUF", append(eq(1, solSocket), eq(2, 8)...)},
			{"setsockopt", "SO_SNDBUFFORCE", append(eq(1, solSocket), eq(2, 32)...)},
			{"setsockopt", "SO_RCVBUFFORCE", append(eq(1, solSocket), eq(2, 33)...)},
		}},
		{"core scheduling cookies idle sibling CPUs, which no quota counts", []Rule{
			{"prctl", "PR_SCHED_CORE", eq(0, 62)},
		}},
	}
}

func eq(arg uint, value uint32) []Match { return []Match{{arg, all, value}} }

// sock matches a family, a type and, where given, a protocol.
func sock(family, typ uint32, protocol ...uint32) []Match {
	m := []Match{{0, all, family}, {1, typeMask, typ}}
	for _, p := range protocol {
		m = append(m, Match{2, all, p})
	}
	return m
}

// Permits returns the argument rules of goarch outside which a call is refused.
func Permits(goarch string) []RuleSet { return nativeRules(goarch, permitRules()) }

// Denies returns the argument rules of goarch by which a call is refused.
func Denies(goarch string) []RuleSet { return nativeRules(goarch, denyRules()) }

func nativeRules(goarch string, sets []RuleSet) []RuleSet {
	var out []RuleSet
	for _, s := range sets {
		rules := slices.DeleteFunc(slices.Clone(s.Rules), func(r Rule) bool {
			_, ok := Number(goarch, r.Syscall)
			return !ok
		})
		if len(rules) > 0 {
			out = append(out, RuleSet{s.Reason, rules})
		}
	}
	return out
}
