/* The interpreter: one function per kind of operation. No operation decides
 * anything; what a missing file means, for example, is a flag of the plan. */
#include <linux/if.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/stat.h>

#include "launcher.h"

#define MS_REC_ 16384
#define MS_PRIVATE_ (1 << 18)
#define MNT_DETACH_ 2
#define IF_FLAGS_GET 0x8913
#define IF_FLAGS_SET 0x8914

#define ALL_NS (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)

enum bind_kind { BIND_DIR = 1, BIND_FILE = 2, BIND_CHAR = 3 };
enum bind_flags { BIND_RECURSIVE = 1, BIND_NOFOLLOW = 2 };
enum export_flags { EXPORT_DIR = 1, EXPORT_OPTIONAL = 2 };

static int fd_at(struct ctx *c, u64 i) { return i < c->nfds ? c->fds[i] : -1; }

/* Paths of template operations are relative to the new root, of all others to
 * the sandbox's root, which is the process's own. */
static int base(struct ctx *c) { return c->root >= 0 ? c->root : AT_FDCWD_; }

/* The launcher's umask is 0, so that modes are what the plan says. */
static long own(int fd, u64 uid, u64 gid)
{
	return uid || gid ? sys3(__NR_fchown, fd, (u32)uid, (u32)gid) : 0;
}

static long op_root(struct ctx *c, const struct op *op)
{
	char num[24];
	long r = sys5(__NR_mount, 0, "/", 0, MS_REC_ | MS_PRIVATE_, 0);
	if (r < 0)
		return r;
	int fs = (int)sys2(__NR_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return fs;
	*put_dec(num, op->arg[0]) = 0;
	r = sys5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, "size", num, 0);
	if (r < 0)
		return r;
	*put_dec(num, op->arg[1]) = 0;
	r = sys5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, "nr_inodes", num, 0);
	if (r < 0)
		return r;
	r = sys5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0);
	if (r < 0)
		return r;
	r = sys5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (r < 0)
		return r;
	c->root = (int)sys3(__NR_fsmount, fs, FSMOUNT_CLOEXEC,
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	sys_close(fs);
	if (c->root < 0)
		return c->root;
	return sys5(__NR_move_mount, c->root, "", AT_FDCWD_, "/", MOVE_MOUNT_F_EMPTY_PATH);
}

static long op_dir(struct ctx *c, const struct op *op)
{
	char *path = plan_str(op, 0).p;
	long r = sys3(__NR_mkdirat, base(c), path, op->arg[0]);
	if (r < 0 || (!op->arg[1] && !op->arg[2]))
		return r;
	int fd = (int)sys_openat(base(c), path, O_DIRECTORY_ | O_NOFOLLOW_, 0);
	if (fd < 0)
		return fd;
	r = own(fd, op->arg[1], op->arg[2]);
	sys_close(fd);
	return r;
}

static long create(struct ctx *c, const char *path, u64 mode)
{
	return sys_openat(base(c), path, O_WRONLY_ | O_CREAT_ | O_EXCL_ | O_NOFOLLOW_, (u32)mode);
}

static long op_write(struct ctx *c, const struct op *op)
{
	struct str data = plan_str(op, 1);
	int fd = (int)create(c, plan_str(op, 0).p, op->arg[0]);
	if (fd < 0)
		return fd;
	long r = write_all(fd, data.p, data.len);
	if (r >= 0)
		r = own(fd, op->arg[1], op->arg[2]);
	sys_close(fd);
	return r;
}

/* Copies exactly the size that the host saw: a file that grows meanwhile is an
 * error, not a truncated copy. */
static long op_copy(struct ctx *c, const struct op *op)
{
	int in = fd_at(c, op->arg[0]);
	if (in < 0)
		return -E_BADF;
	int fd = (int)create(c, plan_str(op, 0).p, op->arg[1]);
	if (fd < 0)
		return fd;
	long r = 0;
	u64 off = 0, size = op->arg[2];
	while (r >= 0 && off <= size) {
		r = sys4(__NR_sendfile, fd, in, &off, size + 1 - off);
		if (r == -E_INTR || r == -E_AGAIN) {
			r = 0;
			continue;
		}
		if (r == 0)
			break;
	}
	if (r >= 0 && off != size)
		r = -E_FBIG;
	if (r >= 0)
		r = own(fd, op->arg[3] >> 32, (u32)op->arg[3]);
	sys_close(fd);
	return r;
}

/* A mount target is opened once, beneath the root and without following any
 * link, and mounted on by descriptor: nothing in a hostile rootfs can redirect
 * it (CVE-2021-30465 and its relatives). */
static long open_target(struct ctx *c, const char *path)
{
	struct open_how how = {
		.flags = O_PATH_ | O_CLOEXEC_,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	return sys4(__NR_openat2, base(c), path, &how, sizeof how);
}

static long check_kind(int fd, u64 kind, u64 dev)
{
	struct statx st;
	long r = sys5(__NR_statx, fd, "", AT_EMPTY_PATH_, STATX_TYPE, &st);
	if (r < 0)
		return r;
	u32 type = st.stx_mode & 0170000;
	switch (kind) {
	case BIND_DIR:
		return type == 0040000 ? 0 : -E_NOTDIR;
	case BIND_FILE:
		return type == 0100000 ? 0 : -E_INVAL;
	case BIND_CHAR:
		return type == 0020000 &&
				       (((u64)st.stx_rdev_major << 32) | st.stx_rdev_minor) == dev
			       ? 0
			       : -E_INVAL;
	}
	return -E_INVAL;
}

static long op_bind(struct ctx *c, const struct op *op)
{
	u32 flags = OPEN_TREE_CLONE | O_CLOEXEC_ | AT_EMPTY_PATH_;
	if (op->arg[3] & BIND_RECURSIVE)
		flags |= AT_RECURSIVE_;
	/* Within the host's root, which is not the mount namespace's where the host
	 * program lives in a chroot. */
	struct open_how how = {
		.flags = O_PATH_ | O_CLOEXEC_ | (op->arg[3] & BIND_NOFOLLOW ? O_NOFOLLOW_ : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int source = (int)sys4(__NR_openat2, c->host_root, plan_str(op, 0).p, &how, sizeof how);
	if (source < 0)
		return source;
	int tree = (int)sys3(__NR_open_tree, source, "", flags);
	sys_close(source);
	if (tree < 0)
		return tree;
	struct mount_attr attr = {.attr_set = op->arg[0], .propagation = MS_PRIVATE_};
	long target = -1, r = check_kind(tree, op->arg[1], op->arg[2]);
	if (r >= 0)
		r = sys5(__NR_mount_setattr, tree, "",
			 AT_EMPTY_PATH_ | (op->arg[3] & BIND_RECURSIVE ? AT_RECURSIVE_ : 0), &attr,
			 sizeof attr);
	if (r >= 0)
		r = target = open_target(c, plan_str(op, 1).p);
	if (r >= 0)
		r = sys5(__NR_move_mount, tree, "", target, "",
			 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	if (target >= 0)
		sys_close((int)target);
	sys_close(tree);
	return r;
}

static long op_pivot(struct ctx *c)
{
	long r = sys1(__NR_fchdir, c->root);
	if (r >= 0)
		r = sys2(__NR_pivot_root, ".", ".");
	if (r >= 0) /* the old root is stacked on ours */
		r = sys2(__NR_umount2, ".", MNT_DETACH_);
	if (r >= 0)
		r = sys1(__NR_chdir, "/");
	return r;
}

static long op_attr(struct ctx *c, const struct op *op)
{
	struct mount_attr attr = {.attr_set = op->arg[0]};
	return sys5(__NR_mount_setattr, base(c), plan_str(op, 0).p,
		    op->arg[1] ? AT_RECURSIVE_ : 0, &attr, sizeof attr);
}

static long op_join(struct ctx *c, const struct op *op)
{
	return write_all(fd_at(c, op->arg[0]), "0", 1);
}

/* Hides a path of a file system that we mounted ourselves just now. A path
 * that this kernel does not have needs no mask. (Trying the one kind and then
 * the other costs an RCU grace period for the failed attempt.) */
static long op_mask(const struct op *op)
{
	struct statx st;
	char *path = plan_str(op, 0).p;
	long r = sys5(__NR_statx, AT_FDCWD_, path, AT_SYMLINK_NOFOLLOW_, STATX_TYPE, &st);
	if (r == -E_NOENT)
		return 0;
	if (r < 0)
		return r;
	int dir = (st.stx_mode & 0170000) == 0040000;
	return sys5(__NR_mount, plan_str(op, dir ? 2 : 1).p, path, 0, MS_BIND, 0);
}

/* Fresh namespaces; the network one, by far the most expensive, may have been
 * made ahead for this sandbox alone. */
static long op_unshare(struct ctx *c, const struct op *op)
{
	u64 flags = op->arg[0];
	if ((flags & CLONE_NEWNET) && c->net_ns >= 0) {
		long r = sys2(__NR_setns, c->net_ns, CLONE_NEWNET);
		if (r < 0)
			return r;
		flags &= ~(u64)CLONE_NEWNET;
	}
	long r = sys1(__NR_unshare, flags);
	c->own_ns = r >= 0 && (op->arg[0] & ALL_NS) == ALL_NS;
	return r;
}

long op_loopback(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	int fd = (int)sys3(__NR_socket, 2 /* AF_INET */, 2 /* SOCK_DGRAM */ | O_CLOEXEC_, 0);
	if (fd < 0)
		return fd;
	long r = sys3(__NR_ioctl, fd, IF_FLAGS_GET, &ifr);
	if (r >= 0 && !(ifr.ifr_flags & 1 /* IFF_UP */)) {
		ifr.ifr_flags = (short)(ifr.ifr_flags | 1);
		r = sys3(__NR_ioctl, fd, IF_FLAGS_SET, &ifr);
	}
	sys_close(fd);
	return r;
}

static long write_file(int dir, const char *path, struct str data)
{
	int fd = (int)sys_openat(dir, path, O_WRONLY_ | O_NOFOLLOW_, 0);
	if (fd < 0)
		return fd;
	long r = write_all(fd, data.p, data.len);
	sys_close(fd);
	return r;
}

static long op_export(struct ctx *c, const struct op *op)
{
	if (op->arg[0] >= MAX_EXPORT)
		return -E_INVAL;
	int dir = op->arg[1] & EXPORT_DIR ? O_DIRECTORY_ : 0;
	int fd = (int)sys_openat(AT_FDCWD_, plan_str(op, 0).p, O_RDONLY_ | dir, 0);
	if (fd == -E_NOENT && (op->arg[1] & EXPORT_OPTIONAL))
		return 0;
	if (fd < 0)
		return fd;
	c->export_fd[op->arg[0]] = fd; /* handed over when the program runs */
	c->exported |= 1u << op->arg[0];
	return 0;
}

static long op_stdio(struct ctx *c, const struct op *op)
{
	for (int i = 0; i < 3; i++) {
		long r = sys3(__NR_dup3, fd_at(c, op->arg[i]), i, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

static long op_rlimit(const struct op *op)
{
	u64 lim[2] = {op->arg[1], op->arg[2]};
	return sys4(__NR_prlimit64, 0, op->arg[0], lim, 0);
}

/* The few operations that make sense outside of namespaces of one's own. */
static int harmless(u16 code)
{
#ifdef SBX_WEAKEN /* a launcher for tests of selftest, never one that is embedded */
	return 1;
#endif
	return code == OP_JOIN || code == OP_ENTER || code == OP_UNSHARE || code == OP_STDIO ||
	       code == OP_RLIMIT;
}

long own_namespaces(const struct ctx *c, u16 code)
{
	return c->own_ns || harmless(code) ? 0 : -E_PERM;
}

long run_op(struct ctx *c, const struct op *op)
{
	if (own_namespaces(c, op->code) < 0)
		return -E_PERM;
	switch (op->code) {
	case OP_ROOT:
		return op_root(c, op);
	case OP_DIR:
		return op_dir(c, op);
	case OP_SYMLINK:
		return sys3(__NR_symlinkat, plan_str(op, 0).p, base(c), plan_str(op, 1).p);
	case OP_WRITE:
		return op_write(c, op);
	case OP_BIND:
		return op_bind(c, op);
	case OP_PIVOT:
		return op_pivot(c);
	case OP_ATTR:
		return op_attr(c, op);
	case OP_JOIN:
		return op_join(c, op);
	case OP_ENTER:
		return sys2(__NR_setns, c->template_ns, CLONE_NEWNS);
	case OP_UNSHARE:
		return op_unshare(c, op);
	case OP_MOUNT: {
		char *data = plan_str(op, 3).p, *type = plan_str(op, 2).p;
		return sys5(__NR_mount, plan_str(op, 0).p, plan_str(op, 1).p, *type ? type : 0,
			    op->arg[0], *data ? data : 0);
	}
	case OP_UMOUNT:
		return sys2(__NR_umount2, plan_str(op, 0).p, MNT_DETACH_);
	case OP_MASK:
		return op_mask(op);
	case OP_LOOPBACK:
		return op_loopback();
	case OP_HOSTNAME: {
		struct str name = plan_str(op, 0);
		return sys2(__NR_sethostname, name.p, name.len);
	}
	case OP_EXPORT:
		return op_export(c, op);
	case OP_COPY:
		return op_copy(c, op);
	case OP_CHOWN:
		return sys5(__NR_fchownat, AT_FDCWD_, plan_str(op, 0).p, (u32)op->arg[0], (u32)op->arg[1],
			    AT_SYMLINK_NOFOLLOW_);
	case OP_RLIMIT:
		return op_rlimit(op);
	case OP_STDIO:
		return op_stdio(c, op);
	case OP_HOLD: {
		long fd = sys_openat(AT_FDCWD_, plan_str(op, 0).p, O_DIRECTORY_, 0);
		c->user_sysctl = (int)fd;
		return fd;
	}
	case OP_SUPERVISOR:
		return become_supervisor((u32)op->arg[0], (u32)op->arg[1]);
	case OP_USERSYSCTL:
		return write_file(c->user_sysctl, plan_str(op, 0).p, plan_str(op, 1));
	case OP_IDENTITY:
		return set_identity((u32)op->arg[0], (u32)op->arg[1], op->arg[2] != 0);
	case OP_DROPCAPS:
		return drop_capabilities(1);
	default:
		return -E_NOSYS;
	}
}
