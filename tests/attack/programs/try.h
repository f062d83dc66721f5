/* What all programs share: one line for each attempt. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints "name ok" or "name ERRNO". */
static __attribute__((unused)) void tell(const char *name, long r)
{
	int e = errno;
	if (r < 0)
		printf("%s %s\n", name, strerrorname_np(e));
	else
		printf("%s ok\n", name);
	fflush(stdout);
}
#define TRY(name, call) (errno = 0, tell(name, (long)(call)))

/* Runs f in a child and prints "name exit N" or "name signal N". */
static __attribute__((unused)) void fate(const char *name, void (*f)(void))
{
	int status;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		f();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s signal %d\n", name, WTERMSIG(status));
	else
		printf("%s exit %d\n", name, WEXITSTATUS(status));
	fflush(stdout);
}
