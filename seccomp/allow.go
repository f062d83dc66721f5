package seccomp

// Group is a set of system calls that are treated alike for one reason.
type Group struct {
	Name     string
	Reason   string
	Syscalls []string
}

// allowGroups is the allow list of all architectures; names that an
// architecture lacks are dropped by [Groups]. Calls in it that also have a
// permit rule (rules.go) are allowed only as that rule says.
var allowGroups = []Group{
	{"descriptor", "read, write and manage descriptors that the program holds", []string{
		"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
		"lseek", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "ioctl", "flock", "pipe", "pipe2",
		"fsync", "fdatasync", "sync_file_range", "fallocate", "ftruncate", "fadvise64", "readahead",
		"copy_file_range", "sendfile", "splice", "tee",
	}},
	{"file", "paths; the mount namespace and file permissions bound what they reach", []string{
		"open", "openat", "openat2", "creat", "access", "faccessat", "faccessat2",
		"stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs", "file_getattr",
		"readlink", "readlinkat", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "truncate",
		"rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "unlink", "unlinkat",
		"symlink", "symlinkat", "mknod", "mknodat",
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "umask",
		"utime", "utimes", "futimesat", "utimensat",
		"inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
	}},
	{"xattr", "tar and cp -a keep extended attributes; inode limits bound their memory", []string{
		"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
		"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
		"getxattrat", "listxattrat", "setxattrat", "removexattrat",
	}},
	{"memory", "allocators, JIT compilers and shared mappings", []string{
		"brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "msync", "mincore",
		"mlock", "mlock2", "munlock", "mlockall", "munlockall", "memfd_create", "membarrier",
		"pkey_mprotect", "pkey_alloc", "pkey_free", "mseal", "map_shadow_stack",
	}},
	{"process", "start, wait for and end own processes and threads", []string{
		"clone", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid",
		"getpid", "getppid", "gettid", "getpgid", "setpgid", "getpgrp", "getsid", "setsid",
		"set_tid_address", "set_robust_list", "get_robust_list", "rseq", "rseq_slice_yield",
		"futex", "futex_waitv", "futex_wake", "futex_wait", "futex_requeue",
		"pidfd_open", "prctl", "arch_prctl", "personality",
	}},
	{"trampoline", "issued by code that the kernel injects where the host's operator set a uprobe; elsewhere they raise SIGILL", []string{
		"uretprobe", "uprobe",
	}},
	{"signal", "signals within the PID namespace", []string{
		"kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
		"rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigsuspend",
		"sigaltstack", "signalfd", "signalfd4", "pause", "restart_syscall",
	}},
	{"identity", "query identity, and set it to what it is; without a capability nothing is gained", []string{
		"getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups",
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid",
		"capget", "capset",
	}},
	{"scheduling", "own priority and affinity; the cgroup bounds the CPU time, real-time classes need a capability", []string{
		"sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam",
		"sched_getscheduler", "sched_setscheduler", "sched_getattr", "sched_setattr",
		"sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
		"getpriority", "setpriority", "ioprio_get", "ioprio_set", "getcpu",
	}},
	{"limit", "query usage, query and lower limits", []string{
		"getrlimit", "setrlimit", "prlimit64", "getrusage", "times", "sysinfo", "uname",
	}},
	{"time", "read clocks, sleep, timers", []string{
		"time", "gettimeofday", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "alarm",
		"getitimer", "setitimer", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete",
		"timerfd_create", "timerfd_settime", "timerfd_gettime",
	}},
	{"poll", "event loops", []string{
		"poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
		"epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2",
	}},
	{"network", "local sockets and the network namespace's own interfaces", []string{
		"socket", "socketpair", "bind", "listen", "accept", "accept4", "connect", "shutdown",
		"getsockname", "getpeername", "getsockopt", "setsockopt",
		"sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg",
	}},
	{"ipc", "System V and POSIX IPC, private to the IPC namespace", []string{
		"shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl",
		"msgget", "msgsnd", "msgrcv", "msgctl",
		"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	}},
	{"random", "seeds", []string{"getrandom"}},
	{"confine", "a program may confine itself further; these calls can loosen nothing", []string{
		"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	}},
}

// initSyscalls are the calls that the sandbox's PID 1 makes after set-up. It
// is a static single-threaded C program, so no library adds to them.
var initSyscalls = Group{"init", "reap children, forward signals, report to the supervisor", []string{
	"read", "write", "sendmsg", "recvmsg", "sendto", "wait4", "waitid", "close", "exit", "exit_group",
	"rt_sigreturn", "rt_sigaction", "rt_sigprocmask", "poll", "ppoll", "kill", "restart_syscall", "getpid",
}}

// Groups returns the allow list of goarch, nil for an unsupported one.
func Groups(goarch string) []Group { return native(goarch, allowGroups) }

// Init returns the calls that the sandbox's PID 1 may make on goarch; any
// other kills it.
func Init(goarch string) Group {
	if g := native(goarch, []Group{initSyscalls}); len(g) == 1 {
		return g[0]
	}
	return Group{}
}

// native returns the groups with only the calls that goarch has.
func native(goarch string, groups []Group) []Group {
	var out []Group
	for _, g := range groups {
		var names []string
		for _, n := range g.Syscalls {
			if _, ok := Number(goarch, n); ok {
				names = append(names, n)
			}
		}
		if len(names) > 0 {
			out = append(out, Group{g.Name, g.Reason, names})
		}
	}
	return out
}
