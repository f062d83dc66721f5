/* Who a process is and what it may do: ids, capabilities, filters. */
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "launcher.h"

#define CAP_COUNT 64 /* kernels name fewer; the first unknown one ends the loop */

long set_identity(u32 uid, u32 gid, int keep_groups)
{
	long r = keep_groups ? 0 : sys2(__NR_setgroups, 0, 0);
	if (r >= 0)
		r = sys3(__NR_setresgid, gid, gid, gid);
	if (r >= 0)
		r = sys3(__NR_setresuid, uid, uid, uid);
	return r;
}

static long set_caps(int all)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];
	__builtin_memset(d, 0, sizeof d);
	if (all) {
		long r = sys2(__NR_capget, &h, d);
		if (r < 0)
			return r;
		d[0].effective = d[0].permitted;
		d[1].effective = d[1].permitted;
	}
	return sys2(__NR_capset, &h, d);
}

/* PID 1 becomes a user of its own while it keeps the capabilities that the rest
 * of the set-up needs: so the program's user namespace is owned by that user,
 * and what the namespace consumes (inotify instances, ...) is charged to it and
 * not to the host's root (user_namespaces(7), ucounts). */
long become_supervisor(u32 uid, u32 gid)
{
	long r = sys5(__NR_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (r >= 0)
		r = set_identity(uid, gid, 0);
	if (r >= 0)
		r = set_caps(1);
	return r;
}

/* Empties the capability sets. The bounding set matters to a process that will
 * execve; PID 1 never does. */
long drop_capabilities(int bounding)
{
	long r = sys5(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r < 0)
		return r;
	for (long cap = 0; bounding && cap < CAP_COUNT; cap++) {
		r = sys5(__NR_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (r == -E_INVAL && cap > 0)
			break;
		if (r < 0)
			return r;
	}
	return set_caps(0);
}

long load_filter(struct str filter)
{
	struct {
		u16 len;
		void *filter;
	} prog = {.len = (u16)(filter.len / 8), .filter = filter.p};
	if (filter.len == 0 || filter.len % 8 || filter.len / 8 > 4096)
		return -E_INVAL;
	return sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
