/* Decoding of plans. Pure: no system call, so that the fuzzer runs it as it is. */
#include "plan.h"

int plan_arity(__u16 code)
{
	switch (code) {
	case OP_DIR:
	case OP_ATTR:
	case OP_UMOUNT:
	case OP_HOSTNAME:
	case OP_EXPORT:
	case OP_COPY:
	case OP_PROGRAM:
	case OP_HOLD:
	case OP_CHOWN:
	case OP_CHDIR:
	case OP_SECCOMP:
		return 1;
	case OP_SYMLINK:
	case OP_WRITE:
	case OP_BIND:
	case OP_USERSYSCTL:
		return 2;
	case OP_MASK:
		return 3;
	case OP_MOUNT:
		return 4;
	case OP_PIVOT:
	case OP_JOIN:
	case OP_ENTER:
	case OP_UNSHARE:
	case OP_LOOPBACK:
	case OP_RLIMIT:
	case OP_STDIO:
	case OP_SUPERVISOR:
	case OP_AWAIT:
	case OP_ROOT:
	case OP_IDENTITY:
	case OP_DROPCAPS:
	case OP_NONEWPRIVS:
		return 0;
	case OP_EXEC:
		return -1;
	default:
		return -2;
	}
}

static __u32 string_size(__u32 len) { return 4 + ((len + 1 + 3) & ~3u); }

/* One operation's strings must fill its body exactly (padding to 8 aside). */
static int strings_ok(const char *body, __u32 room, __u16 nstr)
{
	for (__u32 i = 0; i < nstr; i++) {
		__u32 len;
		if (room < 4)
			return 0;
		__builtin_memcpy(&len, body, 4);
		if (len > PLAN_MAX_SIZE || string_size(len) > room || body[4 + len] != 0)
			return 0;
		body += string_size(len);
		room -= string_size(len);
	}
	return room < 8;
}

/* EXEC's counts must add up to its strings, and name at least one candidate
 * and one argument. */
static int exec_ok(const struct plan_op *op)
{
	const __u64 *a = op->arg;
	return a[0] >= 1 && a[1] >= 1 && a[0] <= PLAN_MAX_STR && a[1] <= PLAN_MAX_STR &&
	       a[2] <= PLAN_MAX_STR && a[0] + a[1] + a[2] == op->nstr;
}

int plan_decode(char *buf, __u32 size, struct op *ops)
{
	struct plan_header h;
	if (size < sizeof h || size > PLAN_MAX_SIZE || ((unsigned long)buf & 7))
		return -1;
	__builtin_memcpy(&h, buf, sizeof h);
	if (h.magic != PLAN_MAGIC || h.version != PLAN_VERSION || h.size != size ||
	    h.reserved || h.nops == 0 || h.nops > PLAN_MAX_OPS)
		return -1;
	char *p = buf + sizeof h;
	__u32 room = size - (__u32)sizeof h;
	for (int i = 0; i < h.nops; i++) {
		if (room < sizeof(struct plan_op))
			return -1;
		const struct plan_op *op = (const void *)p;
		int want = plan_arity(op->code);
		if (op->size < sizeof *op || op->size > room || (op->size & 7) || want == -2 ||
		    op->nstr > PLAN_MAX_STR || (want >= 0 && op->nstr != want) ||
		    (op->code == OP_EXEC && !exec_ok(op)) ||
		    !strings_ok(p + sizeof *op, op->size - (__u32)sizeof *op, op->nstr))
			return -1;
		ops[i] = (struct op){.code = op->code, .nstr = op->nstr, .arg = op->arg,
				     .strings = p + sizeof *op};
		p += op->size;
		room -= op->size;
	}
	return room == 0 ? h.nops : -1;
}

struct str plan_str(const struct op *op, __u32 i)
{
	char *p = op->strings;
	for (;;) {
		__u32 len;
		__builtin_memcpy(&len, p, 4);
		if (i-- == 0)
			return (struct str){.p = p + 4, .len = len};
		p += string_size(len);
	}
}
