/* The launcher's request loop. */
#include <linux/prctl.h>
#include <linux/sched.h>

#include "launcher.h"

#define SIGCHLD_ 17
#define SIGPIPE_ 13
#define SIG_BLOCK_ALL (~0ull)
#define SOL_SOCKET_ 1
#define SCM_RIGHTS_ 1
#define MSG_NOSIGNAL_ 0x4000
#define MSG_CMSG_CLOEXEC_ 0x40000000
#define MSG_TRUNCATED 0x28 /* MSG_TRUNC | MSG_CTRUNC */
#define MADV_DONTNEED_ 4

struct iovec_ {
	void *base;
	ulong len;
};
struct msghdr_ {
	void *name;
	int namelen;
	struct iovec_ *iov;
	ulong iovlen;
	void *control;
	ulong controllen;
	unsigned int flags;
};
struct cmsg {
	ulong len;
	int level, type;
	int fds[MAX_FDS];
};
#define CMSG_HEAD 16

static char plan_buf[PLAN_MAX_SIZE] __attribute__((aligned(4096)));
static struct op ops[PLAN_MAX_OPS];
static int slots[MAX_SLOTS];
static int proc_fd = -1, root_fd = -1, host_ns = -1, own_ns = -1, own_net = -1, spare_net = -1;
static int rootless;
static u32 outer_uid, outer_gid;

void init_main(struct ctx *c, struct op *ops, int nops) __attribute__((noreturn));

/* The compiler may emit calls to these even without a libc. */
void *memset(void *d, int v, ulong n)
{
	for (char *p = d; n; n--)
		*p++ = (char)v;
	return d;
}
void *memcpy(void *d, const void *s, ulong n)
{
	char *p = d;
	for (const char *q = s; n; n--)
		*p++ = *q++;
	return d;
}

long send_report(int sock, const struct report *r, const int *fds, u32 nfds)
{
	struct cmsg cm = {.len = CMSG_HEAD + 4 * nfds, .level = SOL_SOCKET_, .type = SCM_RIGHTS_};
	struct iovec_ iov = {(void *)(ulong)r, sizeof *r};
	struct msghdr_ m = {.iov = &iov, .iovlen = 1};
	for (u32 i = 0; i < nfds; i++)
		cm.fds[i] = fds[i];
	if (nfds) {
		m.control = &cm;
		m.controllen = (CMSG_HEAD + 4 * nfds + 7) & ~7ul;
	}
	long n;
	do
		n = sys3(__NR_sendmsg, sock, &m, MSG_NOSIGNAL_);
	while (n == -E_INTR);
	return n < 0 ? n : 0;
}

/* Closes what a request brought. */
void forget_fds(struct ctx *c, u32 first)
{
	for (u32 i = first; i < c->nfds; i++)
		sys_close(c->fds[i]);
	c->nfds = first;
}

/* Receives one request and puts its descriptors at c->fds[first] and on.
 * 0 = the host is gone. */
long receive(int sock, struct request *req, struct ctx *c, u32 first)
{
	static struct cmsg cm;
	struct iovec_ iov = {req, sizeof *req};
	struct msghdr_ m = {.iov = &iov, .iovlen = 1, .control = &cm,
			    .controllen = sizeof cm - first * sizeof(int)};
	long n;
	do
		n = sys3(__NR_recvmsg, sock, &m, MSG_CMSG_CLOEXEC_);
	while (n == -E_INTR);
	c->nfds = first;
	if (n > 0 && m.controllen >= CMSG_HEAD && cm.level == SOL_SOCKET_ && cm.type == SCM_RIGHTS_)
		for (u32 i = 0; i < (cm.len - CMSG_HEAD) / 4; i++)
			c->fds[c->nfds++] = cm.fds[i];
	if (n > 0 && (n != sizeof *req || (m.flags & MSG_TRUNCATED) || c->nfds != first + req->nfds))
		return -E_BADMSG;
	return n;
}

long read_plan(int fd, struct op *out)
{
	u32 size = 0;
	for (;;) {
		long n = sys4(__NR_pread64, fd, plan_buf + size, sizeof plan_buf - size, size);
		if (n == -E_INTR)
			continue;
		if (n < 0)
			return n;
		if (n == 0)
			break;
		size += (u32)n;
	}
	int nops = plan_decode(plan_buf, size, out);
	return nops < 0 ? -E_BADMSG : nops;
}

static long write_text(int dir, const char *path, const char *text)
{
	int fd = (int)sys_openat(dir, path, O_WRONLY_, 0);
	if (fd < 0)
		return fd;
	long r = write_all(fd, text, str_len(text));
	sys_close(fd);
	return r;
}

/* Without privilege the launcher first becomes root of a user namespace of its
 * own; from there on everything is the same. */
static long boot_rootless(void)
{
	char line[64];
	/* The network namespace too: only from one of its own can it come back after
	 * it has made a sandbox's. */
	long r = sys1(__NR_unshare, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET);
	if (r < 0)
		return r;
	r = write_text(proc_fd, "self/setgroups", "deny");
	if (r < 0)
		return r;
	*put_str(put_dec(put_str(line, "0 "), outer_gid), " 1\n") = 0;
	r = write_text(proc_fd, "self/gid_map", line);
	if (r < 0)
		return r;
	*put_str(put_dec(put_str(line, "0 "), outer_uid), " 1\n") = 0;
	return write_text(proc_fd, "self/uid_map", line);
}

/* Leaves the host's namespaces at once, so that no operation of any plan could
 * ever reach the host's mounts, names or queues, and so that the host's mounts
 * are not kept busy by a copy. The host's mount namespace is entered again, by
 * descriptor, only to make a template's. */
static long boot(void)
{
	struct ctx c = {.root = -1, .host_root = -1};
	u64 room[4] = {4096, 4, 0, 0};
	struct op root = {.code = OP_ROOT, .arg = room}, pivot = {.code = OP_PIVOT, .arg = room};
	long r;
	if (own_ns >= 0)
		return 0;
	proc_fd = (int)sys_openat(AT_FDCWD_, "/proc", O_PATH_ | O_DIRECTORY_, 0);
	if (proc_fd < 0)
		return proc_fd;
	if (rootless) {
		r = boot_rootless();
		if (r < 0)
			return r;
	}
	own_net = (int)sys_openat(proc_fd, "self/ns/net", O_RDONLY_, 0);
	host_ns = (int)sys_openat(proc_fd, "self/ns/mnt", O_RDONLY_, 0);
	root_fd = (int)sys_openat(AT_FDCWD_, "/", O_PATH_ | O_DIRECTORY_, 0);
	if (own_net < 0 || host_ns < 0 || root_fd < 0)
		return -E_NOENT;
	/* Out of a chroot, whose root is no mount, before a mount is made the root. */
	r = sys2(__NR_setns, host_ns, CLONE_NEWNS);
	if (r >= 0)
		r = sys1(__NR_unshare, CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC);
	c.own_ns = 1;
	if (r >= 0)
		r = run_op(&c, &root);
	if (r >= 0)
		r = run_op(&c, &pivot);
	if (c.root >= 0)
		sys_close(c.root);
	if (r >= 0)
		r = own_ns = (int)sys_openat(proc_fd, "self/ns/mnt", O_RDONLY_, 0);
	return r;
}

/* Makes a network namespace ahead: half of a sandbox's set-up time is its
 * creation, and here it is off the way. It is used by one sandbox and never
 * again. Where it fails the sandbox makes its own, and reports why it can't. */
static void make_spare(void)
{
	if (spare_net >= 0 || boot() < 0 || sys1(__NR_unshare, CLONE_NEWNET) < 0)
		return;
	if (op_loopback() >= 0)
		spare_net = (int)sys_openat(proc_fd, "self/ns/net", O_RDONLY_, 0);
	if (sys2(__NR_setns, own_net, CLONE_NEWNET) < 0)
		sys_exit(1);
}

static void drop(u32 slot)
{
	if (slot < MAX_SLOTS && slots[slot] >= 0) {
		sys_close(slots[slot]);
		slots[slot] = -1;
	}
}

/* Builds a template: a mount namespace whose root holds all that the sandboxes
 * of one configuration share, and nothing of the host's mounts besides. */
static void build_template(struct request *req, struct ctx *c)
{
	struct report rep = {.type = REP_FAILED, .op = OP_BOOT};
	long r = req->slot < MAX_SLOTS && c->nfds == 2 ? boot() : -E_INVAL;
	if (r < 0)
		goto done;
	rep.op = OP_DECODE;
	long nops = r = read_plan(c->fds[1], ops);
	if (r >= 0)
		r = sys2(__NR_setns, host_ns, CLONE_NEWNS);
	if (r >= 0) /* the working directory is carried over into the copy */
		r = sys1(__NR_fchdir, root_fd);
	if (r >= 0)
		r = sys1(__NR_unshare, CLONE_NEWNS);
	if (r >= 0)
		r = c->host_root = (int)sys_openat(AT_FDCWD_, ".", O_PATH_ | O_DIRECTORY_, 0);
	c->own_ns = 1;
	for (u32 i = 0; r >= 0 && i < (u32)nops; i++) {
		rep.step = i;
		rep.op = ops[i].code;
		r = run_op(c, &ops[i]);
	}
	if (c->root >= 0)
		sys_close(c->root);
	if (c->host_root >= 0)
		sys_close(c->host_root);
	if (r >= 0)
		r = sys_openat(proc_fd, "self/ns/mnt", O_RDONLY_, 0);
	if (r >= 0) {
		drop(req->slot);
		slots[req->slot] = (int)r;
		rep.type = REP_READY;
	}
	/* Leaving a half-built namespace is its end. */
	if (sys2(__NR_setns, own_ns, CLONE_NEWNS) < 0)
		sys_exit(1);
	sys4(__NR_madvise, plan_buf, sizeof plan_buf, MADV_DONTNEED_, 0);
done:
	rep.value = r < 0 ? (s32)-r : 0;
	send_report(c->fds[0], &rep, 0, 0);
}

static long fork_init(struct ctx *c, u32 cgroup, int *pidfd)
{
	struct clone_args args = {
		.flags = CLONE_NEWPID | CLONE_PIDFD | (cgroup ? CLONE_INTO_CGROUP : 0),
		.pidfd = (u64)(ulong)pidfd,
		.exit_signal = SIGCHLD_,
		.cgroup = cgroup ? (u64)c->fds[cgroup - 1] : 0,
	};
	return sys2(__NR_clone3, &args, sizeof args);
}

static __attribute__((noreturn)) void child(struct ctx *c)
{
	/* The launcher ignores SIGCHLD so that inits leave no zombies; PID 1 has to
	 * wait for its own children. */
	u64 dfl[4] = {0, 0, 0, 0}, none = 0;
	struct report rep = {.type = REP_FAILED, .op = OP_DECODE};
	sys4(__NR_rt_sigaction, SIGCHLD_, dfl, 0, 8);
	sys4(__NR_rt_sigaction, SIGPIPE_, dfl, 0, 8);
	sys4(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &none, 0, 8);
	long r = sys3(__NR_dup3, c->fds[0], CONTROL_FD, O_CLOEXEC_);
	if (r >= 0) {
		sys_close(c->fds[0]);
		c->fds[0] = CONTROL_FD;
		r = sys0(__NR_setsid);
	}
	sys5(__NR_prctl, PR_SET_NAME, "sbxrun-init", 0, 0, 0);
	sys5(__NR_prctl, PR_SET_PDEATHSIG, 9 /* SIGKILL */, 0, 0, 0); /* again after the last change of ids */
	if (r >= 0)
		r = read_plan(c->fds[1], ops);
	if (r >= 0)
		init_main(c, ops, (int)r);
	rep.value = (s32)-r;
	send_report(c->fds[0], &rep, 0, 0);
	sys_exit(125);
}

static void launch(struct request *req, struct ctx *c)
{
	struct report rep = {.type = REP_FAILED, .op = OP_CLONE, .value = E_INVAL};
	int pidfd = -1;
	if (c->nfds < 2 || req->slot >= MAX_SLOTS || slots[req->slot] < 0 || req->cgroup > c->nfds) {
		if (c->nfds > 0)
			send_report(c->fds[0], &rep, 0, 0);
		return;
	}
	c->template_ns = slots[req->slot];
	c->net_ns = spare_net;
	spare_net = -1;
	long pid = fork_init(c, req->cgroup, &pidfd);
	if (pid == 0)
		child(c);
	if (c->net_ns >= 0)
		sys_close(c->net_ns);
	if (pid < 0) {
		rep.value = (s32)-pid;
		send_report(c->fds[0], &rep, 0, 0);
		return;
	}
	rep = (struct report){.type = REP_LAUNCHED, .op = OP_CLONE, .value = (s32)pid};
	send_report(c->fds[0], &rep, &pidfd, 1);
	sys_close(pidfd);
}

static void serve(void)
{
	static struct ctx c;
	struct request req;
	for (;;) {
		long n = receive(CONTROL_FD, &req, &c, 0);
		if (n == 0)
			return;
		if (n > 0) {
			c.root = c.host_root = c.template_ns = c.net_ns = c.user_sysctl = c.sync = -1;
			c.exported = c.phase = 0;
			c.is_program = c.own_ns = 0;
			if (req.type == REQ_TEMPLATE && c.nfds > 0)
				build_template(&req, &c);
			else if (req.type == REQ_LAUNCH)
				launch(&req, &c);
			else if (req.type == REQ_DROP)
				drop(req.slot);
		} else if (n != -E_BADMSG) {
			return;
		}
		forget_fds(&c, 0);
		if (n > 0 && req.spare)
			make_spare();
	}
}

/* Resets what a process inherits from the host and a program would inherit from
 * us: the umask, a real-time scheduling policy, a personality, and protection
 * from the OOM killer, without which a memory limit has nobody to kill. */
static void forget_host(void)
{
	static const char oom[] = "/proc/self/oom_score_adj";
	int param = 0;
	char sign = 0;
	sys1(__NR_umask, 0); /* the program gets 022 */
	sys3(__NR_sched_setscheduler, 0, 0 /* SCHED_OTHER */, &param);
	sys1(__NR_personality, 0);
	int fd = (int)sys_openat(AT_FDCWD_, oom, O_RDONLY_, 0);
	if (fd < 0 || sys3(__NR_read, fd, &sign, 1) != 1)
		sys_exit(1);
	sys_close(fd);
	if (sign == '-' && write_text(AT_FDCWD_, oom, "0") < 0)
		sys_exit(1);
}

/* argv: name, then "rootless" UID GID for a host without privilege. */
__attribute__((noreturn, used)) void launcher_main(long argc, char **argv)
{
	u64 ign[4] = {1 /* SIG_IGN */, 0, 0, 0}, dfl[4] = {0, 0, 0, 0}, all = SIG_BLOCK_ALL;
	rootless = argc == 3;
	for (int i = 0; rootless && i < 2; i++) {
		u32 v = 0;
		for (char *p = argv[1 + i]; *p >= '0' && *p <= '9'; p++)
			v = v * 10 + (u32)(*p - '0');
		*(i ? &outer_gid : &outer_uid) = v;
	}
	for (int i = 0; i < MAX_SLOTS; i++)
		slots[i] = -1;
	forget_host();
	for (int sig = 1; sig <= 64; sig++) /* an ignored signal stays ignored over execve */
		sys4(__NR_rt_sigaction, sig, dfl, 0, 8);
	sys4(__NR_rt_sigaction, SIGCHLD_, ign, 0, 8);
	sys4(__NR_rt_sigaction, SIGPIPE_, ign, 0, 8);
	/* A signal meant for the host's process group is not for us: the host ends
	 * us by closing the control socket. */
	sys4(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, 0, 8);
	sys0(__NR_setsid);
	sys1(__NR_chdir, "/");
	sys5(__NR_prctl, PR_SET_NAME, "sbxrun-launcher", 0, 0, 0);
	/* Without privilege the id maps below /proc/self must stay ours to write. */
	if (!rootless)
		sys5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (sys3(__NR_close_range, CONTROL_FD + 1, ~0u, 0) < 0)
		sys_exit(1);
	serve();
	sys_exit(0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov (%rsp), %rdi\n\tlea 8(%rsp), %rsi\n"
	"\tand $-16, %rsp\n\tcall launcher_main\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n\tmov x29, xzr\n\tmov x30, xzr\n\tldr x0, [sp]\n"
	"\tadd x1, sp, #8\n\tbl launcher_main\n");
#endif
