/* Runs the launcher's plan decoder on the host, for the tests of package plan.
 *
 * stdin:  repeated: u32 size, size bytes
 * stdout: one line a plan: "-" where it is refused, else
 *         "N" and per operation " CODE ARG ARG ARG ARG NSTR [LEN:FNV1A ...]"
 *
 * Each plan lies in an allocation of exactly its size, so that AddressSanitizer
 * sees every read beyond it. With -DLIBFUZZER -fsanitize=fuzzer it is a fuzz
 * target of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plan.h"

static struct op ops[PLAN_MAX_OPS];

static unsigned long long fnv(const char *p, __u32 len)
{
	unsigned long long h = 14695981039346656037ull;
	for (__u32 i = 0; i < len; i++)
		h = (h ^ (unsigned char)p[i]) * 1099511628211ull;
	return h;
}

static void show(FILE *out, char *buf, __u32 size)
{
	int n = plan_decode(buf, size, ops);
	if (n < 0) {
		fputs("-\n", out);
		return;
	}
	fprintf(out, "%d", n);
	for (int i = 0; i < n; i++) {
		fprintf(out, " %u %llu %llu %llu %llu %u", ops[i].code, (unsigned long long)ops[i].arg[0],
			(unsigned long long)ops[i].arg[1], (unsigned long long)ops[i].arg[2],
			(unsigned long long)ops[i].arg[3], ops[i].nstr);
		for (__u32 s = 0; s < ops[i].nstr; s++) {
			struct str v = plan_str(&ops[i], s);
			if (v.p[v.len] != 0)
				abort(); /* the promise that makes paths usable in place */
			fprintf(out, " %u:%llx", v.len, fnv(v.p, v.len));
		}
	}
	fputc('\n', out);
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static FILE *null;
	char *buf = malloc(size ? size : 1);
	if (!null)
		null = fopen("/dev/null", "w");
	memcpy(buf, data, size);
	show(null, buf, (__u32)size);
	free(buf);
	return 0;
}
#else
int main(void)
{
	__u32 size;
	while (fread(&size, sizeof size, 1, stdin) == 1) {
		char *buf = malloc(size ? size : 1);
		if (!buf || (size && fread(buf, size, 1, stdin) != 1))
			return 1;
		show(stdout, buf, size);
		fflush(stdout);
		free(buf);
	}
	return 0;
}
#endif
