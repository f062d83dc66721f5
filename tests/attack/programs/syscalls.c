/* Calls past the filter: other ABIs, high bits of arguments, forbidden calls. */
#include "try.h"

static long raw(long n, long a, long b, long c, long d, long e) { return syscall(n, a, b, c, d, e); }

#if defined(__x86_64__)
static long int80(long n, long a)
{
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(0), "d"(0), "D"("/"), "S"(0) : "r8", "r9", "r10", "r11", "memory");
	return r;
}
static void i386_getpid(void) { long r = int80(20, 0); _exit(r > 0 ? 7 : 8); }
/* On a kernel without i386 calls, 21 is access("/", F_OK), which succeeds. */
static void i386_mount(void) { long r = int80(21, 0); _exit(r == -14 ? 7 : 8); }
static void x32_getpid(void) { long r = raw(0x40000000 | SYS_getpid, 0, 0, 0, 0, 0); _exit(r > 0 ? 7 : errno); }
static void x32_io_uring(void) { long r = raw(0x40000000 | 425, 1, 0, 0, 0, 0); _exit(r >= 0 ? 7 : errno); }
static void sysenter32(void)
{
	/* Far jump to the 32-bit code segment would be the other way in. */
	__asm__ volatile("mov $20, %%eax; int $0x80" ::: "eax", "memory");
	_exit(9);
}
#endif

int main(void)
{
	const long high = 1l << 32;
	char b[64] = {0};
	TRY("control-getpid", raw(SYS_getpid, 0, 0, 0, 0, 0));
	TRY("clone3", raw(435, 0, 0, 0, 0, 0));
	TRY("unknown", raw(9999, 0, 0, 0, 0, 0));
	TRY("negative", raw(-1, 0, 0, 0, 0, 0));
	TRY("io_uring", raw(425, 8, (long)b, 0, 0, 0));
	TRY("userfaultfd", raw(SYS_userfaultfd, 0, 0, 0, 0, 0));
	TRY("bpf", raw(SYS_bpf, 0, (long)b, 64, 0, 0));
	TRY("perf", raw(SYS_perf_event_open, (long)b, 0, -1, -1, 0));
	TRY("keyctl", raw(SYS_keyctl, 0, -3, 0, 0, 0));
	TRY("add_key", raw(SYS_add_key, (long)"user", (long)"x", (long)"y", 1, -3));
	TRY("request_key", raw(SYS_request_key, (long)"user", (long)"x", 0, -3, 0));
	TRY("unshare-user", unshare(CLONE_NEWUSER));
	TRY("unshare-net", unshare(CLONE_NEWNET));
	TRY("unshare-time", unshare(0x80));
	TRY("setns", raw(SYS_setns, 0, 0, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		static const long flags[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID};
		static const char *names[] = {"clone-user", "clone-mount", "clone-pid"};
		long r = raw(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0);
		if (r == 0)
			_exit(0);
		tell(names[i], r);
		/* The kernel takes the low 32 bits only. */
		r = raw(SYS_clone, high | flags[i] | SIGCHLD, 0, 0, 0, 0);
		if (r == 0)
			_exit(0);
		printf("high-");
		tell(names[i], r);
	}
	TRY("mount", mount("none", "/tmp", "tmpfs", 0, ""));
	TRY("remount", mount("", "/usr", "", MS_REMOUNT | MS_BIND, ""));
	TRY("umount", umount2("/proc", MNT_DETACH));
	TRY("umount-mask", umount2("/proc/kcore", MNT_DETACH));
	TRY("pivot_root", raw(SYS_pivot_root, (long)".", (long)".", 0, 0, 0));
	TRY("chroot", chroot("/tmp"));
	TRY("fsopen", raw(430, (long)"tmpfs", 0, 0, 0, 0));
	TRY("open_tree", raw(428, AT_FDCWD, (long)"/", 1, 0, 0));
	TRY("move_mount", raw(429, -1, (long)"", -1, (long)"", 0));
	TRY("fsmount", raw(432, -1, 0, 0, 0, 0));
	TRY("mount_setattr", raw(442, AT_FDCWD, (long)"/", 0, (long)b, 32));
	TRY("statmount", raw(457, (long)b, (long)b, 64, 0, 0));
	TRY("handle", raw(SYS_name_to_handle_at, AT_FDCWD, (long)"/usr", (long)b, (long)b, 0));
	TRY("open-by-handle", raw(SYS_open_by_handle_at, AT_FDCWD, (long)b, 0, 0, 0));
	TRY("ptrace-init", ptrace(PTRACE_ATTACH, 1, 0, 0));
	TRY("ptrace-seize", ptrace(PTRACE_SEIZE, 1, 0, 0));
	TRY("ptrace-me", ptrace(PTRACE_TRACEME, 0, 0, 0));
	TRY("vm-read", raw(SYS_process_vm_readv, 1, (long)b, 1, (long)b, 1));
	TRY("vm-write", raw(SYS_process_vm_writev, 1, (long)b, 1, (long)b, 1));
	TRY("getfd", raw(438, 0, 0, 0, 0, 0));
	TRY("madvise-init", raw(440, 0, (long)b, 1, 0, 0));
	TRY("kcmp", raw(SYS_kcmp, 1, getpid(), 0, 0, 0));
	TRY("fanotify", raw(SYS_fanotify_init, 0, 0, 0, 0, 0));
	TRY("quotactl", raw(SYS_quotactl, 0, 0, 0, 0, 0));
	TRY("swapon", raw(SYS_swapon, (long)"/tmp/x", 0, 0, 0, 0));
	TRY("kexec", raw(SYS_kexec_load, 0, 0, 0, 0, 0));
	TRY("init_module", raw(SYS_init_module, 0, 0, 0, 0, 0));
	TRY("reboot", raw(SYS_reboot, 0xfee1dead, 672274793, 0, 0, 0));
	TRY("acct", raw(SYS_acct, 0, 0, 0, 0, 0));
	TRY("syslog", raw(SYS_syslog, 3, (long)b, 64, 0, 0));
	TRY("settimeofday", raw(SYS_settimeofday, 0, 0, 0, 0, 0));
	TRY("sethostname", sethostname("x", 1));
	TRY("mbind", raw(SYS_mbind, 0, 0, 0, 0, 0));
	TRY("memfd_secret", raw(447, 0, 0, 0, 0, 0));
	TRY("vmsplice", raw(SYS_vmsplice, 1, (long)b, 0, 0, 0));
	TRY("sync", raw(SYS_sync, 0, 0, 0, 0, 0));
	TRY("lease", fcntl(open("/workspace/l", O_CREAT | O_RDWR, 0600), F_SETLEASE, F_WRLCK));
	TRY("high-lease", raw(SYS_fcntl, open("/workspace/l", O_RDWR), high | F_SETLEASE, F_WRLCK, 0, 0));
	TRY("notify", fcntl(open("/workspace", O_RDONLY), F_NOTIFY, DN_CREATE));
	TRY("control-fcntl", fcntl(1, F_GETFL));
	TRY("tiocsti", ioctl(0, 0x5412, "x"));
	TRY("high-tiocsti", raw(SYS_ioctl, 0, high | 0x5412, (long)"x", 0, 0));
	TRY("tioclinux", ioctl(0, 0x541c, "\2"));
	TRY("tiocsetd", ioctl(0, 0x5423, b));
	TRY("setflags", ioctl(open("/workspace", O_RDONLY), 0x40086602, b));
	TRY("control-ioctl", ioctl(open("/workspace/l", O_RDWR), 0x541b /* FIONREAD */, b));
	TRY("personality", raw(SYS_personality, 0x0040000, 0, 0, 0, 0));
	TRY("high-personality", raw(SYS_personality, high | 0x0040000, 0, 0, 0, 0));
	TRY("control-personality", raw(SYS_personality, 0xffffffff, 0, 0, 0, 0));
	TRY("raw-socket", socket(AF_INET, SOCK_RAW, 1));
	TRY("packet", socket(AF_PACKET, SOCK_RAW, 0));
	TRY("high-packet", raw(SYS_socket, high | AF_PACKET, SOCK_RAW, 0, 0, 0));
	TRY("high-raw", raw(SYS_socket, AF_INET, high | SOCK_RAW, 1, 0, 0));
	TRY("high-proto", raw(SYS_socket, AF_INET, SOCK_STREAM, high | 132, 0, 0));
	TRY("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
	TRY("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
	TRY("pair-inet", socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){0}));
	TRY("control-socket", socket(AF_INET, SOCK_STREAM, 0));
	TRY("ulp", setsockopt(socket(AF_INET, SOCK_STREAM, 0), 6, 31, "tls", 3));
	TRY("bad-seccomp", prctl(PR_SET_SECCOMP, 0));
	TRY("dumpable", prctl(PR_SET_DUMPABLE, 1));
	TRY("caps-ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0));
	TRY("keepcaps-setuid", raw(SYS_setresuid, 0, 0, 0, 0, 0));
	TRY("mknod-null", mknod("/workspace/null", S_IFCHR | 0666, 0x103));
	TRY("mknod-disk", mknod("/tmp/vda", S_IFBLK | 0666, 254 << 8));
	TRY("control-mkfifo", mkfifo("/tmp/p", 0600));
#if defined(__x86_64__)
	TRY("iopl", raw(SYS_iopl, 3, 0, 0, 0, 0));
	TRY("modify_ldt", raw(SYS_modify_ldt, 0, (long)b, 64, 0, 0));
	fate("i386", i386_getpid);
	fate("i386-mount", i386_mount);
	fate("i386-sysenter", sysenter32);
	fate("x32", x32_getpid);
	fate("x32-io_uring", x32_io_uring);
#endif
	return 0;
}
