/* PID 1 of a sandbox and the program it starts. */
#include <linux/prctl.h>
#include <linux/sched.h>

#include "launcher.h"

#define SIGCHLD_ 17
#define SIGKILL_ 9
#define AF_UNIX_ 1
#define SOCK_SEQPACKET_ 5
#define POLLHUP_ 0x10

static char *argv[PLAN_MAX_STR + 1], *envp[PLAN_MAX_STR + 1];

static long write_map(const char *pid, const char *file, u64 inside, u64 outside)
{
	char path[64], line[64];
	char *p = put_str(put_str(put_str(put_str(path, "/proc/"), pid), "/"), file);
	*p = 0;
	p = put_dec(line, inside);
	*p++ = ' ';
	p = put_dec(p, outside);
	p = put_str(p, " 1\n");
	int fd = (int)sys_openat(AT_FDCWD_, path, O_WRONLY_, 0);
	if (fd < 0)
		return fd;
	long r = write_all(fd, line, (ulong)(p - line));
	sys_close(fd);
	return r;
}

/* Closes all descriptors from CONTROL_FD + 1 on but the ones that PID 1 hands
 * over or waits on. */
static long keep_needed(struct ctx *c)
{
	for (u32 low = CONTROL_FD + 1;;) {
		u32 next = ~0u; /* the lowest needed one from low on */
		for (int i = -2; i < MAX_EXPORT; i++) {
			int fd = i == -2 ? c->sync : i == -1 ? c->program_fd : c->export_fd[i];
			if ((i < 0 || (c->exported & (1u << i))) && (u32)fd >= low && (u32)fd < next)
				next = (u32)fd;
		}
		long r = next == low ? 0 : sys3(__NR_close_range, low, next == ~0u ? next : next - 1, 0);
		if (r < 0 || next == ~0u)
			return r;
		low = next + 1;
	}
}

/* Leaves PID 1 with no rights and a filter of a dozen calls: whatever the
 * program does to it, there is nothing to gain. */
static long confine_init(struct ctx *c, struct str filter)
{
	struct {
		int fd;
		short events, revents;
	} pfd = {.fd = CONTROL_FD};
	u64 now[2] = {0, 0};
	long r = drop_capabilities(0);
	if (r >= 0)
		r = sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r >= 0)
		r = sys5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	/* After the last change of credentials, which would clear it. */
	if (r >= 0)
		r = sys5(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL_, 0, 0, 0);
	/* A host that died before that sends no signal any more; but then its end
	 * of the set-up socket is closed. */
	if (r >= 0)
		r = sys5(__NR_ppoll, &pfd, 1, now, 0, 0);
	if (r >= 0 && (pfd.revents & POLLHUP_))
		r = -E_PIPE;
	if (r < 0)
		return r;
	for (int fd = 0; fd < 3; fd++) /* else a pipe that the program closes stays open */
		sys_close(fd);
	r = keep_needed(c);
	return r < 0 ? r : load_filter(filter);
}

/* The program's process waits for PID 1's word: once for its id maps, once
 * before the execve, when PID 1 has given up its own rights. */
static void await_init(struct ctx *c)
{
	char word;
	long r;
	do
		r = sys3(__NR_read, c->sync, &word, 1);
	while (r == -E_INTR);
	if (r != 1) /* PID 1 failed and has reported it */
		sys_exit(125);
}

/* Forks the program into its user namespace. Returns in the child with
 * *is_program set, and in PID 1, confined, with the program's pid. */
long run_program_op(struct ctx *c, const struct op *op, int *is_program)
{
	int sv[2];
	char num[24];
	long r = own_namespaces(c, OP_PROGRAM);
	if (r < 0)
		return r;
	r = sys4(__NR_socketpair, AF_UNIX_, SOCK_SEQPACKET_ | O_CLOEXEC_, 0, sv);
	if (r < 0)
		return r;
	long pid = sys5(__NR_clone, CLONE_NEWUSER | CLONE_PIDFD | SIGCHLD_, 0, &c->program_fd, 0, 0);
	if (pid < 0)
		return pid;
	if (pid == 0) {
		*is_program = 1;
		sys_close(sv[0]);
		c->sync = sv[1];
		sys1(__NR_umask, 022);
		sys_close(CONTROL_FD);
		await_init(c);
		return 0;
	}
	sys_close(sv[1]);
	c->sync = sv[0];
	*put_dec(num, (u64)pid) = 0;
	r = write_map(num, "gid_map", op->arg[2], op->arg[3]);
	if (r >= 0)
		r = write_map(num, "uid_map", op->arg[0], op->arg[1]);
	if (r >= 0) /* from here on both work at the same time */
		r = sys3(__NR_write, c->sync, "m", 1);
	if (r >= 0)
		r = confine_init(c, plan_str(op, 0));
	if (r >= 0)
		r = sys3(__NR_write, c->sync, "g", 1);
	if (r == -E_PIPE) /* the program's side has failed already; its report is next */
		r = 0;
	return r < 0 ? r : pid;
}

/* Replaces the process by the program: the first candidate path that can be
 * executed, as execvp(3) does with PATH. */
static long exec_program(const struct op *op)
{
	u32 ncand = (u32)op->arg[0], argc = (u32)op->arg[1], envc = (u32)op->arg[2], n = 0;
	char *p = op->strings;
	long err = -E_NOENT;
	struct op rest = *op;
	/* One walk over the strings: plan_str from the start each time would be
	 * quadratic in the number of arguments. */
	for (u32 i = 0; i < ncand + argc + envc; i++) {
		rest.strings = p;
		struct str s = plan_str(&rest, 0);
		if (i >= ncand && i < ncand + argc)
			argv[n++] = s.p;
		else if (i >= ncand + argc)
			envp[i - ncand - argc] = s.p;
		p = s.p + ((s.len + 1 + 3) & ~3u);
	}
	for (u32 i = 0; i < ncand; i++) {
		long r = sys3(__NR_execve, plan_str(op, i).p, argv, envp);
		if (r == -E_ACCES)
			err = r;
		else if (r != -E_NOENT && r != -E_NOTDIR)
			return r;
	}
	return err;
}

/* The working directory is entered without magic links and must lie in the
 * sandbox's own tree (CVE-2024-21626). */
static long enter_dir(const char *path)
{
	static char cwd[4096];
	struct {
		u64 flags, mode, resolve;
	} how = {.flags = O_PATH_ | O_DIRECTORY_ | O_CLOEXEC_, .resolve = 0x02 /* NO_MAGICLINKS */};
	int fd = (int)sys4(__NR_openat2, AT_FDCWD_, path, &how, sizeof how);
	if (fd < 0)
		return fd;
	long r = sys1(__NR_fchdir, fd);
	sys_close(fd);
	if (r >= 0)
		r = sys2(__NR_getcwd, cwd, sizeof cwd);
	if (r >= 0 && cwd[0] != '/')
		r = -E_NOENT;
	return r;
}

/* Operations that only the program's process may do. */
static long run_last_op(struct ctx *c, const struct op *op)
{
	switch (op->code) {
	case OP_NONEWPRIVS:
		return sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	case OP_CHDIR:
		return enter_dir(plan_str(op, 0).p);
	case OP_SECCOMP: {
		/* Nothing but 0, 1 and 2 survives the execve, whatever the host had
		 * open; the status socket is closed by it, and that is its message. */
		long r = sys3(__NR_close_range, 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */);
		return r < 0 ? r : load_filter(plan_str(op, 0));
	}
	case OP_EXEC:
		await_init(c);
		return exec_program(op);
	default:
		return run_op(c, op);
	}
}

static __attribute__((noreturn)) void fail(struct ctx *c, u32 step, u32 op, long err)
{
	struct report rep = {.type = REP_FAILED, .step = step, .op = op, .value = (s32)-err,
			     .phase = c->phase};
	if (c->is_program) {
		write_all(c->sync, &rep, sizeof rep);
		if (op != OP_EXEC) /* an unread word would reset the connection, report and all */
			await_init(c);
	} else {
		send_report(c->fds[0], &rep, 0, 0);
	}
	sys_exit(125);
}

/* Waits for the second plan. The host closes the socket when it no longer wants
 * the sandbox. Returns the plan's length. */
static long await_plan(struct ctx *c, struct op *ops)
{
	struct request req;
	forget_fds(c, 1);
	long r = receive(CONTROL_FD, &req, c, 1);
	if (r == 0)
		sys_exit(0);
	if (r < 0 || req.type != REQ_RUN || c->nfds < 2)
		return -E_BADMSG;
	c->phase = 1;
	return read_plan(c->fds[1], ops);
}

/* Runs a sandbox's plans in the new PID 1; never returns. */
__attribute__((noreturn)) void init_main(struct ctx *c, struct op *ops, int nops)
{
	u32 i;
	for (i = 0; i < (u32)nops; i++) {
		long r;
		if (c->is_program) {
			r = run_last_op(c, &ops[i]);
		} else if (ops[i].code == OP_AWAIT) {
			r = await_plan(c, ops);
			if (r >= 0) {
				nops = (int)r;
				i = ~0u; /* the next one is the first */
			}
		} else if (ops[i].code == OP_PROGRAM) {
			r = run_program_op(c, &ops[i], &c->is_program);
			if (r > 0 && !c->is_program)
				init_loop(c, i, (u32)r);
		} else {
			r = run_op(c, &ops[i]);
		}
		if (r < 0)
			fail(c, i, i < (u32)nops ? ops[i].code : OP_DECODE, r);
	}
	fail(c, i, OP_DECODE, -E_PROTO); /* the last plan ends in EXEC */
}

/* Tells the host that the program runs, with the descriptors that the host
 * works on from now on. PID 1 keeps nothing but the set-up socket. */
static void hand_over(struct ctx *c)
{
	struct report rep = {.type = REP_STARTED, .exported = c->exported};
	int fds[1 + MAX_EXPORT];
	u32 n = 0;
	fds[n++] = c->program_fd;
	for (int i = 0; i < MAX_EXPORT; i++)
		if (c->exported & (1u << i))
			fds[n++] = c->export_fd[i];
	send_report(CONTROL_FD, &rep, fds, n);
	while (n)
		sys_close(fds[--n]);
	sys_close(c->sync);
}

/* PID 1's life: say how the start went, reap, and end with the program; its end
 * takes the whole PID namespace with it (pid_namespaces(7)). */
__attribute__((noreturn)) void init_loop(struct ctx *c, u32 step, u32 program)
{
	struct report rep = {0};
	long r;
	do
		r = sys3(__NR_read, c->sync, &rep, sizeof rep);
	while (r == -E_INTR);
	if (r != 0) {
		if (r != sizeof rep)
			rep = (struct report){.type = REP_FAILED, .step = step, .op = OP_PROGRAM, .phase = 1,
					      .value = (s32)(r < 0 ? -r : E_PROTO)};
		send_report(CONTROL_FD, &rep, 0, 0);
		sys_exit(125);
	}
	hand_over(c);
	for (;;) {
		int status = 0;
		long pid = sys4(__NR_wait4, -1, &status, 0x40000000 /* __WALL */, 0);
		if (pid == -E_INTR || (pid > 0 && pid != program))
			continue;
		if (pid < 0) /* cannot happen: the program is our child until reaped */
			sys_exit(125);
		rep = (struct report){.type = REP_EXIT, .value = status};
		send_report(CONTROL_FD, &rep, 0, 0);
		sys_exit(0);
	}
}
