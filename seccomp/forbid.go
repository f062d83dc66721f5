package seccomp

// forbidGroups are the known calls that answer EPERM. Together with
// allowGroups and hiddenGroup they cover the kernel's tables (held by a test).
var forbidGroups = []Group{
	{"io_uring", "operations in a shared ring are invisible to seccomp; a long record of kernel holes", []string{
		"io_uring_setup", "io_uring_enter", "io_uring_register",
	}},
	{"aio", "takes from fs.aio-max-nr, one limit for the whole machine that nothing divides", []string{
		"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents",
	}},
	{"fault", "lets a program park the kernel in the midst of a copy and so hold its locks", []string{"userfaultfd"}},
	{"bpf", "code in the kernel, and what it observes", []string{"bpf", "perf_event_open"}},
	{"keyring", "keys are not namespaced by the mount, PID or network namespace", []string{"add_key", "request_key", "keyctl"}},
	{"namespace", "no way to new capabilities or into other namespaces", []string{"unshare", "setns", "listns"}},
	{"mount", "the file system is set up once, by the launcher", []string{
		"mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "mount_setattr",
		"fsopen", "fsconfig", "fsmount", "fspick", "statmount", "listmount",
	}},
	{"handle", "file handles open inodes past the mount tree (CAP_DAC_READ_SEARCH, \"shocker\")", []string{
		"name_to_handle_at", "open_by_handle_at", "lookup_dcookie",
	}},
	{"inspect", "reach into the memory or descriptors of another process", []string{
		"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "process_madvise", "process_mrelease", "kcmp",
	}},
	{"fanotify", "watches whole mounts and can block others' access", []string{"fanotify_init", "fanotify_mark"}},
	{"quota", "file system administration", []string{"quotactl", "quotactl_fd", "file_setattr"}},
	{"flush", "writes back the host's file systems, not only the sandbox's", []string{"sync", "syncfs"}},
	{"residency", "tells which pages of the host's files others use; unchecked before Linux 6.14", []string{"cachestat"}},
	{"swap", "host administration", []string{"swapon", "swapoff"}},
	{"kexec", "host administration", []string{"kexec_load", "kexec_file_load", "reboot"}},
	{"module", "code in the kernel", []string{
		"init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module",
	}},
	{"log", "host-wide logs and accounting", []string{"acct", "syslog"}},
	{"clock", "the clock is the host's", []string{"settimeofday", "clock_settime", "clock_adjtime", "adjtimex"}},
	{"name", "set once, by the launcher", []string{"sethostname", "setdomainname"}},
	{"hardware", "ports, segment descriptors, terminals", []string{
		"iopl", "ioperm", "modify_ldt", "set_thread_area", "get_thread_area", "vhangup",
	}},
	{"numa", "placement is the host's; a record of kernel holes", []string{
		"mbind", "set_mempolicy", "get_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages",
	}},
	{"secretmem", "pages that no limit but memlock counts and that stop hibernation", []string{"memfd_secret"}},
	{"gift", "pages mapped by user and pipe at once; a record of kernel holes", []string{"vmsplice"}},
	{"lsm", "the host's security modules", []string{"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"}},
	{"obsolete", "no current program calls them; several are not even implemented", []string{
		"uselib", "ustat", "sysfs", "_sysctl", "remap_file_pages", "nfsservctl", "getpmsg", "putpmsg", "afs_syscall",
		"tuxcall", "security", "vserver", "epoll_ctl_old", "epoll_wait_old",
	}},
}

// hiddenGroup are known calls that answer ENOSYS, as if the kernel were older.
// clone3 has its flags in memory, where no filter sees them; C libraries fall
// back to clone. seccomp compiles a filter into kernel code: what that takes is
// charged to nobody and goes through one lock of the whole machine, so that a
// few programs that fork and filter stall every launch of a sandbox on the host;
// libraries fall back to prctl, which is refused (see denyRules).
var hiddenGroup = Group{"hidden", "answers as an older kernel would, and libraries fall back", []string{"clone3", "seccomp"}}

// Forbidden returns the known calls of goarch that answer EPERM.
func Forbidden(goarch string) []Group { return native(goarch, forbidGroups) }

// Hidden returns the known calls that answer ENOSYS.
func Hidden() Group { return hiddenGroup }
