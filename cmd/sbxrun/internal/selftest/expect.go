package selftest

import "github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"

// The answers that several attempts share.
const (
	// denied is a call that the system call policy knows and refuses. Other errnos
	// would be the kernel's own, which a hostile program gets past on another host.
	denied = "EPERM"
	// unknown is a call that the policy does not know: it may also be too new for
	// the kernel.
	unknown = "EPERM|ENOSYS"
	// readOnly is the answer of a read-only mount alone: missing permissions
	// would answer EACCES, and are no substitute.
	readOnly = "EROFS"
	// hidden is a file of the host that is not there, or not for the program.
	hidden = "ENOENT|EACCES|EPERM"
	// unwritable is a file of the kernel's.
	unwritable = "EROFS|EACCES|EPERM|ENOENT|" + probe.Masked
	// noSocket is a refused kind of socket.
	noSocket = "EPERM|EACCES|EAFNOSUPPORT|EPROTONOSUPPORT|ESOCKTNOSUPPORT"
	// noRoute is where a packet finds no way out; a kernel without IPv6 has no
	// addresses of it either.
	noRoute6 = "ENETUNREACH|EAFNOSUPPORT|EADDRNOTAVAIL"

	expectReached = "reached"
)

// expectation is what an attempt must find.
type expectation struct{ name, expected string }

// rootless are the attempts that find something else where the caller is not
// root: there is one host id for caller and program, so the program owns the
// folders of the tool channel. What it may not forge is a reply (bridge-forge-reply),
// and that holds for both.
var rootless = map[string]string{
	"bridge-list-replies":  "EACCES|" + probe.OK,
	"bridge-list-requests": "EACCES|" + probe.OK,
}

// of returns what the attempt must find for a caller with the id.
func (e expectation) of(uid int) string {
	if own, ok := rootless[e.name]; ok && uid != 0 {
		return own
	}
	return e.expected
}

// escapes are the attempts of probe.PartEscape but the tool call. A test holds
// the two lists together.
var escapes = [...]expectation{
	{"descriptors", probe.None},

	{"uid", "nonzero"},
	{"gid", "nonzero"},
	{"supplementary-groups", probe.None},
	{"capabilities", probe.None},
	{"no-new-privs", "1"},
	{"seccomp-mode", "2"},
	{"setuid-root", "EPERM|EINVAL"}, // EINVAL where the id is not mapped at all
	{"setgid-root", "EPERM|EINVAL"},
	{"setgroups", denied},
	{"core-limit", "0"},
	{"control-setuid", probe.OK},

	{"tcp4-outside", "ENETUNREACH"},
	{"tcp6-outside", noRoute6},
	{"udp4-outside", "ENETUNREACH"},
	{"udp6-outside", noRoute6},
	{"tcp4-host-addresses", "ENETUNREACH|" + probe.None},
	{"tcp4-canary", "ECONNREFUSED"},
	{"tcp6-canary", "ECONNREFUSED|EAFNOSUPPORT|EADDRNOTAVAIL|" + probe.None},
	{"udp4-canary", probe.OK}, // sent to the sandbox's own loopback; the host's side is judged apart
	{"unix-abstract-canary", "ECONNREFUSED"},
	{"unix-path-canary", hidden},
	{"control-tcp4-loopback", probe.OK},
	{"control-unix-socket", probe.OK},
	{"interfaces", "lo"},
	{"routes", probe.None},
	{"socket-raw", noSocket},
	{"socket-packet", noSocket},
	{"socket-vsock", noSocket},
	{"socket-netlink-audit", noSocket},
	{"socket-alg", noSocket},

	{"unshare-net", denied},
	{"unshare-mount", denied},
	{"clone-newuser", denied},
	{"control-fork", probe.OK},
	{"setns", denied},
	{"mount-tmpfs", denied},
	{"umount", denied},
	{"chroot", denied},
	{"pivot-root", denied},
	{"fsopen", unknown},
	{"open-tree", unknown},
	{"keyctl", denied},
	{"bpf", denied},
	{"perf-event-open", denied},
	{"io-uring-setup", unknown},
	{"userfaultfd", denied},
	{"open-by-handle-at", denied},
	{"name-to-handle-at", denied},
	{"clone3", "ENOSYS"},
	{"personality", denied},
	{"memfd-secret", unknown},
	{"fanotify", denied},
	{"syslog", denied},
	{"tiocsti", denied},
	{"tiocsti-high-bits", denied},
	{"x32-abi", "ENOSYS|" + probe.None},

	{"cgroup-namespace", "own"},
	{"ipc-namespace", "own"},
	{"mnt-namespace", "own"},
	{"net-namespace", "own"},
	{"pid-namespace", "own"},
	{"user-namespace", "own"},
	{"uts-namespace", "own"},
	{"other-processes", probe.None},
	{"ptrace-init", denied},
	{"read-init-memory", unknown},
	{"kill-init", "EPERM|" + probe.Ignored},
	{"init-environ", "EACCES|EPERM|ENOENT|empty"},
	{"init-exe", hidden},
	{"init-root", hidden},
	{"host-environment", probe.None},
	{"control-own-environ", probe.OK},

	{"write-root", readOnly},
	{"write-usr", readOnly},
	{"write-etc", readOnly},
	{"write-dev", readOnly},
	{"control-write-workspace", probe.OK},
	{"control-write-tmp", probe.OK},
	{"write-proc-sys", unwritable},
	{"write-sysrq-trigger", unwritable},
	{"proc-details", probe.None},
	{"sys", hidden},
	{"host-file", hidden},
	{"mknod", denied},
	{"writable-mounts", probe.None},
	{"suid-mounts", probe.None},
	{"device-mounts", probe.None},
	{"shared-mounts", probe.None},

	{"bridge-list-replies", "EACCES"},
	{"bridge-list-requests", "EACCES"},
	{"bridge-forge-reply", readOnly},
	{"bridge-change-tools", "EROFS|EACCES"},
	{"bridge-replace", "EBUSY|EROFS|EACCES|EXDEV"},
	{"bridge-replace-replies", "EBUSY|EROFS|EACCES|EXDEV"},

	{"open-files-limit", "EMFILE"},
	{"workspace-limit", "ENOSPC"},
}
