/* The plan: what one sandbox (or template) is made of, as a list of typed
 * operations in wire form. package runtime/plan writes it; the launcher only
 * checks its shape and executes it, one operation after another.
 *
 *   struct plan_header
 *   nops times:
 *     struct plan_op            size bytes in all, a multiple of 8
 *       nstr times: u32 len, len bytes, one NUL, zero padding to 4
 *
 * Little endian. Strings may hold any bytes (file contents, filters); the NUL
 * behind them makes paths usable in place. */
#ifndef SBX_PLAN_H
#define SBX_PLAN_H

#include <linux/types.h>

#define PLAN_MAGIC 0x50584253u /* "SBXP" */
#define PLAN_VERSION 1
#define PLAN_MAX_SIZE (4u << 20) /* plan.MaxSize: arguments, environment, stubs */
#define PLAN_MAX_OPS 1024
#define PLAN_MAX_STR 16384 /* strings of one operation: arguments + environment */

struct plan_header {
	__u32 magic;
	__u16 version;
	__u16 nops;
	__u32 size; /* of the whole plan, this header included */
	__u32 reserved;
};

struct plan_op {
	__u32 size;
	__u16 code;
	__u16 nstr;
	__u64 arg[4];
};

/* Operation codes: the names are plan.Op's, checked by a test on both sides. */
#define PLAN_OPS(X)                                                                   \
	/* template */                                                                \
	X(1, ROOT)         /* size, inodes: a tmpfs to become the root */             \
	X(2, DIR)          /* path; mode, uid, gid */                                 \
	X(3, SYMLINK)      /* target, path */                                         \
	X(4, WRITE)        /* path, data; mode, uid, gid */                           \
	X(5, BIND)         /* host source, path; attributes, kind */                  \
	X(6, PIVOT)        /* leave the host's root for the new one */                \
	X(7, ATTR)         /* path; attributes set, recursive: mount_setattr(2) */    \
	/* init (PID 1) */                                                            \
	X(20, JOIN)        /* fd: write "0" to a cgroup.procs */                      \
	X(21, ENTER)       /* setns(2) into the template's mount namespace */         \
	X(22, UNSHARE)     /* flags: unshare(2) */                                    \
	X(23, MOUNT)       /* source, path, type, data; flags: mount(2) */            \
	X(24, UMOUNT)      /* path: umount2(2), MNT_DETACH */                         \
	X(25, MASK)        /* path, null device, empty directory */                   \
	X(26, LOOPBACK)    /* bring lo up */                                          \
	X(27, HOSTNAME)    /* name */                                                 \
	X(29, EXPORT)      /* path; slot, directory?, optional?: open for the host */ \
	X(30, COPY)        /* path; fd, mode, size, id<<32|id: file from the host */  \
	X(31, RLIMIT)      /* resource, soft, hard */                                 \
	X(32, STDIO)       /* fds of stdin, stdout, stderr */                         \
	X(33, AWAIT)       /* the rest of the plan, with its own descriptors */       \
	X(34, SUPERVISOR)  /* uid, gid of PID 1, unprivileged from here */            \
	X(35, PROGRAM)     /* filter of PID 1; inside and outside uid, gid: fork */   \
	X(37, CHOWN)       /* path; uid, gid */                                       \
	X(36, HOLD)        /* path of /proc/sys/user, for USERSYSCTL */               \
	/* program */                                                                 \
	X(50, USERSYSCTL)  /* name below /proc/sys/user, value */                     \
	X(51, IDENTITY)    /* uid, gid, keep groups? */                               \
	X(52, DROPCAPS)    /* empty all five capability sets */                       \
	X(53, NONEWPRIVS)                                                             \
	X(54, CHDIR)       /* path */                                                 \
	X(55, SECCOMP)     /* filter */                                               \
	X(56, EXEC)        /* ncandidates, argc, envc; candidates, argv, envp */

#define X(n, name) OP_##name = n,
enum plan_code { PLAN_OPS(X) };
#undef X

/* What the decoder hands out: a view on the caller's buffer. */
struct op {
	__u16 code, nstr;
	const __u64 *arg;
	char *strings;
};

struct str {
	char *p;
	__u32 len;
};

/* Checks the whole plan and fills ops (PLAN_MAX_OPS of them). Returns the
 * number of operations, or -1 when anything is out of shape. */
int plan_decode(char *buf, __u32 size, struct op *ops);

/* The i-th string of a decoded operation; i must be below op->nstr. */
struct str plan_str(const struct op *op, __u32 i);

/* Number of strings an operation must have; -1 = any, -2 = unknown code. */
int plan_arity(__u16 code);

#endif
