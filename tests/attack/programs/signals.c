/* Eight processes (2^3) signal PID 1, their group and everybody, without end. */
#include "try.h"

int main(void)
{
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	for (int i = 0; i < 3; i++)
		fork();
	for (unsigned n = 0;; n++) {
		int sig = 1 + (int)(n % 64);
		if (sig == 32 || sig == 33) /* the C library's own, not to be ignored */
			continue;
		kill(1, sig);
		if (sig != SIGKILL && sig != SIGSTOP) {
			kill(-1, sig);
			kill(0, sig);
		}
	}
}
