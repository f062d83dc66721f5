//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// finding is one call that a child made.
type finding struct{ What, Got, Want string }

const fine = "success"

// child acts on mode: a list of filters to load, or "bare" for none, perhaps
// after what to do then.
func child(mode string) {
	// Not root: if a filter failed, sethostname and acct would take effect.
	if os.Getuid() == 0 {
		must(syscall.Setgroups(nil))
		must(syscall.Setresgid(65534, 65534, 65534))
		must(syscall.Setresuid(65534, 65534, 65534))
	}
	todo, filters, isExec := strings.Cut(mode, "exec-i386,")
	switch {
	case mode == "init":
		childInit()
	case isExec:
		prog := i386Program()
		loadFilters(filters)
		must(syscall.Exec(prog, []string{"i386"}, nil))
	case mode == "bare":
		emit(argumentCalls())
	default:
		loadFilters(todo)
		emit(slices.Concat(numberCalls(), argumentCalls(), controls()))
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(99)
	}
}

func emit(found []finding) { must(json.NewEncoder(os.Stdout).Encode(found)) }

// loadFilters loads the named filters into all threads.
func loadFilters(names string) {
	set, err := Filters(runtime.GOARCH)
	must(err)
	runtime.LockOSThread()
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case "allow":
			must(loadOne(set.Allow, unix.SECCOMP_FILTER_FLAG_TSYNC))
		case "deny":
			must(loadOne(set.Deny, unix.SECCOMP_FILTER_FLAG_TSYNC))
		case "init":
			must(loadOne(set.Init, 0))
		}
	}
	runtime.UnlockOSThread()
}

func loadOne(prog []byte, flags uintptr) error {
	fprog := unix.SockFprog{Len: uint16(len(prog) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	r, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if e != 0 {
		return e
	}
	if r != 0 {
		return fmt.Errorf("thread %d could not be synchronised", r)
	}
	return nil
}

// childInit filters one thread and makes two calls on it without the Go
// runtime in between, which needs calls that the filter forbids.
func childInit() {
	runtime.LockOSThread()
	text := []byte("alive")
	set, err := Filters(runtime.GOARCH)
	must(err)
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	must(loadOne(set.Init, 0))
	unix.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	os.Exit(98)
}

func errnoName(e syscall.Errno) string {
	if e == 0 {
		return fine
	}
	return unix.ErrnoName(e)
}

func call(what, want string, nr uintptr, args [6]uintptr) finding {
	_, _, e := unix.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
	return finding{what, errnoName(e), want}
}

// numberCalls makes every forbidden and every unknown call, with all arguments
// 0 and all -1.
func numberCalls() []finding {
	const minus = ^uintptr(0)
	allZero, allMinus := [6]uintptr{}, [6]uintptr{minus, minus, minus, minus, minus, minus}
	var out []finding
	both := func(what, want string, nr uintptr) {
		out = append(out, call(what+"(0...)", want, nr, allZero), call(what+"(-1...)", want, nr, allMinus))
	}
	for _, g := range Forbidden(runtime.GOARCH) {
		for _, n := range g.Syscalls {
			nr, _ := Number(runtime.GOARCH, n)
			both(n, "EPERM", uintptr(nr))
		}
	}
	for _, n := range Hidden().Syscalls {
		nr, _ := Number(runtime.GOARCH, n)
		both(n, "ENOSYS", uintptr(nr))
	}
	for nr := range uintptr(700) {
		if Name(runtime.GOARCH, uint32(nr)) == "" {
			both(fmt.Sprint("number ", nr), "ENOSYS", nr)
		}
		if runtime.GOARCH == "amd64" {
			both(fmt.Sprint("x32 number ", nr), "ENOSYS", X32Bit|nr)
		}
	}
	return out
}

// argumentCalls makes allowed calls with refused arguments, also with upper
// halves set. Without a filter none of them answers EPERM or does anything.
func argumentCalls() []finding {
	p, sock := make([]int, 2), -1
	must(unix.Pipe2(p, unix.O_CLOEXEC))
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	pipe, tcp := uintptr(p[0]), uintptr(sock)
	type row struct {
		what string
		nr   uintptr
		args []uintptr
	}
	rows := []row{
		{"personality ADDR_NO_RANDOMIZE", unix.SYS_PERSONALITY, []uintptr{0x40000}},
		{"setsockopt TCP_ULP", unix.SYS_SETSOCKOPT, []uintptr{tcp, 6, 31, 0, 0}},
		{"msgrcv MSG_COPY", unix.SYS_MSGRCV, []uintptr{^uintptr(0), 0, 0, 0, 0x4000}},
		{"prctl PR_SCHED_CORE", unix.SYS_PRCTL, []uintptr{62, 99}},
		{"socket MPTCP", unix.SYS_SOCKET, []uintptr{2, 1, 262}},
		{"socket UDP-Lite", unix.SYS_SOCKET, []uintptr{2, 2, 136}},
		{"socket AF_ALG", unix.SYS_SOCKET, []uintptr{38, 5, 0}},
		{"socket AF_VSOCK", unix.SYS_SOCKET, []uintptr{40, 1, 0}},
		{"socket AF_UNIX SOCK_RAW", unix.SYS_SOCKET, []uintptr{1, 3, 0}},
		{"socket NETLINK_KOBJECT_UEVENT", unix.SYS_SOCKET, []uintptr{16, 3, 15}},
		{"socketpair AF_INET", unix.SYS_SOCKETPAIR, []uintptr{2, 1, 0, 0}},
	}
	for cmd, what := range map[uintptr]string{
		0x5412: "TIOCSTI", 0x541c: "TIOCLINUX", 0x541d: "TIOCCONS", 0x5423: "TIOCSETD",
		0x40086602: "FS_IOC_SETFLAGS", 0x401c5820: "FS_IOC_FSSETXATTR",
	} {
		rows = append(rows, row{"ioctl " + what, unix.SYS_IOCTL, []uintptr{pipe, cmd, 0}})
	}
	for cmd, what := range map[uintptr]string{1024: "F_SETLEASE", 1026: "F_NOTIFY", 1040: "F_SETDELEG"} {
		rows = append(rows, row{"fcntl " + what, unix.SYS_FCNTL, []uintptr{pipe, cmd, 0}})
	}
	// CLONE_THREAD without CLONE_SIGHAND is EINVAL, so nothing is ever started.
	for _, flag := range []uintptr{0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000} {
		rows = append(rows, row{fmt.Sprintf("clone %#x", flag), unix.SYS_CLONE, []uintptr{flag | unix.CLONE_THREAD}})
	}
	var out []finding
	for _, r := range rows {
		for _, upper := range []uintptr{0, 1 << 32, 0xffffffff << 32} {
			var args [6]uintptr
			for i, a := range r.args {
				args[i] = a | upper
			}
			if r.nr == unix.SYS_PRCTL {
				// Of prctl only the option is an int.
				args = [6]uintptr{r.args[0] | upper, r.args[1]}
			}
			out = append(out, call(fmt.Sprintf("%s, upper %#x", r.what, upper>>32), "EPERM", r.nr, args))
		}
	}
	return out
}

// controls are calls that must work under the filters.
func controls() []finding {
	var out []finding
	try := func(what string, f func() error) {
		got := fine
		if err := f(); err != nil {
			got = err.Error()
		}
		out = append(out, finding{what, got, fine})
	}
	try("exec", func() error { return exec.Command("/bin/sh", "-c", "true | cat").Run() })
	try("thread", func() error {
		done := make(chan struct{})
		go func() { runtime.LockOSThread(); close(done) }() // the thread ends with it
		<-done
		return nil
	})
	try("TCP", func() error { return connects("tcp", "127.0.0.1:0") })
	try("Unix socket", func() error { return connects("unix", "@sbxrun-seccomp-test-"+fmt.Sprint(os.Getpid())) })
	try("interfaces", func() error { _, err := net.Interfaces(); return err })
	try("memfd", func() error { _, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC); return err })
	try("eventfd", func() error { _, err := unix.Eventfd(0, 0); return err })
	try("pidfd", func() error { _, err := unix.PidfdOpen(os.Getpid(), 0); return err })
	try("inotify", func() error { _, err := unix.InotifyInit1(0); return err })
	try("openat2", func() error {
		_, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH})
		return err
	})
	try("statx", func() error { return unix.Statx(unix.AT_FDCWD, "/", 0, 0, &unix.Statx_t{}) })
	try("mmap exec", func() error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	})
	out = append(out,
		call("personality query", fine, unix.SYS_PERSONALITY, [6]uintptr{0xffffffff}),
		call("fcntl F_GETFD", fine, unix.SYS_FCNTL, [6]uintptr{1, unix.F_GETFD}),
		call("ioctl of no terminal", "EBADF", unix.SYS_IOCTL, [6]uintptr{^uintptr(0), unix.TCGETS}),
		call("msgrcv of no queue", "EINVAL", unix.SYS_MSGRCV, [6]uintptr{^uintptr(0)}),
		call("close_range of nothing", fine, unix.SYS_CLOSE_RANGE, [6]uintptr{1 << 20, 1 << 21}),
	)
	return out
}

func connects(network, addr string) error {
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		return err
	}
	return c.Close()
}

// i386Program returns the path of a 64-bit program that exits with 7 through
// the 32-bit system call gate.
func i386Program() string {
	const base = 0x400000
	code := []byte{
		0xb8, 1, 0, 0, 0, // mov eax, 1 (exit on i386, write on x86-64)
		0xbb, 7, 0, 0, 0, // mov ebx, 7
		0xcd, 0x80, // int 0x80
		0x0f, 0x0b, // ud2
	}
	le := func(size int, v uint64) (b []byte) {
		for i := range size {
			b = append(b, byte(v>>(8*i)))
		}
		return b
	}
	const entry = 64 + 56
	elf := slices.Concat(
		[]byte("\x7fELF\x02\x01\x01"), make([]byte, 9), // ELF64, little-endian
		le(2, 2), le(2, 62), le(4, 1), le(8, base+entry), le(8, 64), le(8, 0), le(4, 0),
		le(2, 64), le(2, 56), le(2, 1), le(2, 0), le(2, 0), le(2, 0),
		le(4, 1), le(4, 5), le(8, 0), le(8, base), le(8, base), // PT_LOAD, r-x
		le(8, uint64(entry+len(code))), le(8, uint64(entry+len(code))), le(8, 4096), code,
	)
	fd, err := unix.MemfdCreate("i386", 0)
	must(err)
	_, err = unix.Write(fd, elf)
	must(err)
	return fmt.Sprintf("/proc/self/fd/%d", fd)
}
