/* The launcher: one small process per embedding host. It keeps template mount
 * namespaces and, on request, forks the init (PID 1) of a sandbox.
 *
 *   host (Go)                     launcher                init (PID 1)        program
 *     |  TEMPLATE slot  [reply, plan] |                        |                 |
 *     |------------------------------>| builds the namespace   |                 |
 *     |  READY | FAILED on reply      |                        |                 |
 *     |<------------------------------|                        |                 |
 *     |  LAUNCH slot [setup, plan, ..]|                        |                 |
 *     |------------------------------>| clone3                 |                 |
 *     |  LAUNCHED [pidfd]  on setup   |----------------------->| first plan:     |
 *     |<------------------------------|                        | what depends on |
 *     |                                                        | no single run   |
 *     |  RUN [plan, stdio, files]                on setup      |                 |
 *     |------------------------------------------------------->| second plan     |
 *     |                                                        | fork, user ns   |
 *     |                                                        |---------------->|
 *     |                                                        | id maps         |
 *     |                                                        |  mapped         |
 *     |                                                        |---------------->| program's part
 *     |                                                        | drops its own   |
 *     |                                                        | rights          |
 *     |                                                        |  go             |
 *     |                                                        |---------------->| execve
 *     |                                                        |   EOF | report  |
 *     |  STARTED [program's pidfd, exported descriptors]       |<----------------|
 *     |  or FAILED(step, op, errno)                            |                 |
 *     |<-------------------------------------------------------|                 |
 *     |  EXIT(wait status)                                     |<----------------x
 *     |<-------------------------------------------------------x
 *
 * Between the two plans a sandbox can wait as long as the host likes; closing
 * setup ends it.
 *
 * setup and reply are SEQPACKET sockets, one per request. The end of the
 * control socket (the host is gone) ends the launcher, and the launcher's end
 * ends every init (PR_SET_PDEATHSIG) and with it the init's whole PID
 * namespace. */
#ifndef SBX_LAUNCHER_H
#define SBX_LAUNCHER_H

#include "plan.h"
#include "sys.h"

#define CONTROL_FD 3
#define MAX_FDS 200    /* descriptors of one request; SCM_MAX_FD is 253 */
#define MAX_SLOTS 64   /* templates: root configurations of one host */
#define MAX_EXPORT 8   /* descriptors handed back in STARTED */

enum request_type { REQ_TEMPLATE = 1, REQ_LAUNCH = 2, REQ_DROP = 3, REQ_SPARE = 4, REQ_RUN = 5 };

struct request {
	u32 type;
	u32 slot;
	u32 cgroup; /* index of the cgroup v2 directory descriptor + 1, 0 = none */
	u32 nfds;
	u32 spare; /* make a network namespace ahead when this is done */
	u32 reserved;
};

enum report_type {
	REP_LAUNCHED = 1,
	REP_READY = 2,
	REP_STARTED = 3,
	REP_FAILED = 4,
	REP_EXIT = 5,
};

/* Steps that are no operation of the plan. */
#define OP_DECODE 0xfff0
#define OP_CLONE 0xfff1
#define OP_BOOT 0xfff2

struct report {
	u32 type;
	u32 step; /* index of the operation in the plan */
	u32 op;
	s32 value; /* errno, pid or wait status */
	u32 exported; /* STARTED: bit n = slot n is among the descriptors */
	u32 phase;    /* 0: the first plan, 1: the second */
};

struct ctx {
	int fds[MAX_FDS]; /* of the request: 0 = setup or reply, 1 = plan */
	u32 nfds;
	int root;         /* template: the new root's mount */
	int host_root;    /* template: the host's root, where sources are found */
	int template_ns;
	int net_ns;       /* a network namespace made ahead, or -1 */
	int user_sysctl;  /* /proc/sys/user, opened before it is made read-only */
	int export_fd[MAX_EXPORT];
	u32 exported;
	int sync;         /* init: the program's status; program: init */
	int program_fd;   /* init: the program's pidfd */
	int is_program;
	int own_ns;       /* in namespaces that no other process lives in */
	u32 phase;
};

long op_loopback(void);
long send_report(int sock, const struct report *r, const int *fds, u32 nfds);
long run_op(struct ctx *c, const struct op *op);
long own_namespaces(const struct ctx *c, u16 code); /* 0, or -EPERM outside of them */
long run_program_op(struct ctx *c, const struct op *op, int *is_program);
long become_supervisor(u32 uid, u32 gid);
long drop_capabilities(int bounding);
long load_filter(struct str filter);
long set_identity(u32 uid, u32 gid, int keep_groups);
__attribute__((noreturn)) void init_loop(struct ctx *c, u32 step, u32 program);
long read_plan(int fd, struct op *ops);
long receive(int sock, struct request *req, struct ctx *c, u32 first);
void forget_fds(struct ctx *c, u32 first);

#endif
