/* Raw system calls: the launcher links no libc, so that it stays a few pages
 * large (a fork of it copies next to nothing) and its binary depends on nothing
 * but the compiler. Every wrapper returns the value or -errno. */
#ifndef SBX_SYS_H
#define SBX_SYS_H

#include <asm/unistd.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef unsigned long ulong;

#if defined(__x86_64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "sbxrun's launcher is built for x86-64 and arm64"
#endif

#define sys0(n) sys6(n, 0, 0, 0, 0, 0, 0)
#define sys1(n, a) sys6(n, (long)(a), 0, 0, 0, 0, 0)
#define sys2(n, a, b) sys6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define sys3(n, a, b, c) sys6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys4(n, a, b, c, d) sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define sys5(n, a, b, c, d, e) \
	sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

#define AT_FDCWD_ (-100)

/* errno(3); the values are the same on both architectures. */
enum {
	E_PERM = 1,
	E_NOENT = 2,
	E_INTR = 4,
	E_BADF = 9,
	E_AGAIN = 11,
	E_ACCES = 13,
	E_NOTDIR = 20,
	E_INVAL = 22,
	E_FBIG = 27,
	E_NOSPC = 28,
	E_PIPE = 32,
	E_PROTO = 71,
	E_BADMSG = 74,
	E_NOSYS = 38,
	E_CHILD = 10,
};

/* fcntl.h and friends: the generic values, plus the two that differ. */
#define O_RDONLY_ 0
#define O_WRONLY_ 01
#define O_CREAT_ 0100
#define O_EXCL_ 0200
#define O_CLOEXEC_ 02000000
#if defined(__aarch64__)
#define O_DIRECTORY_ 040000
#define O_NOFOLLOW_ 0100000
#else
#define O_DIRECTORY_ 0200000
#define O_NOFOLLOW_ 0400000
#endif
#define O_PATH_ 010000000
#define AT_EMPTY_PATH_ 0x1000
#define AT_SYMLINK_NOFOLLOW_ 0x100
#define AT_RECURSIVE_ 0x8000

static inline long sys_close(int fd) { return sys1(__NR_close, fd); }
static inline __attribute__((noreturn)) void sys_exit(int code)
{
	for (;;)
		sys1(__NR_exit_group, code);
}

static inline long sys_openat(int dir, const char *path, int flags, u32 mode)
{
	long r;
	do
		r = sys4(__NR_openat, dir, path, flags | O_CLOEXEC_, mode);
	while (r == -E_INTR);
	return r;
}

/* Writes all of buf, or returns -errno. */
static inline long write_all(int fd, const void *buf, ulong len)
{
	const char *p = buf;
	while (len) {
		long r = sys3(__NR_write, fd, p, len);
		if (r == -E_INTR)
			continue;
		if (r < 0)
			return r;
		if (r == 0)
			return -E_NOSPC;
		p += r;
		len -= (ulong)r;
	}
	return 0;
}

static inline ulong str_len(const char *s)
{
	ulong n = 0;
	while (s[n])
		n++;
	return n;
}

/* Appends the decimal form of v at p and returns the end; no NUL. */
static inline char *put_dec(char *p, u64 v)
{
	char tmp[20];
	int n = 0;
	do
		tmp[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*p++ = tmp[--n];
	return p;
}

static inline char *put_str(char *p, const char *s)
{
	while (*s)
		*p++ = *s++;
	return p;
}

#endif
