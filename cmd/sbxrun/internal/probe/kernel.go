package probe

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// x32Bit marks a call of the x32 ABI (asm/unistd.h, __X32_SYSCALL_BIT).
const x32Bit = 0x40000000

// kernelAttempts make calls that open more of the kernel. Their arguments are
// valid as far as that does no harm where a call is not denied.
func kernelAttempts() []attempt {
	simple := func(name string, fd bool, nr uintptr, args ...uintptr) attempt {
		return attempt{name, func(*Config) string { return raw(fd, nr, args...) }}
	}
	return []attempt{
		simple("unshare-net", false, unix.SYS_UNSHARE, unix.CLONE_NEWNET),
		simple("unshare-mount", false, unix.SYS_UNSHARE, unix.CLONE_NEWNS),
		{"clone-newuser", func(*Config) string { return forkOnce(unix.CLONE_NEWUSER) }},
		{"control-fork", func(*Config) string { return forkOnce(0) }},
		{"setns", func(*Config) string { return enterNamespace() }},
		{"mount-tmpfs", func(*Config) string {
			return answer(unix.Mount("none", "/tmp", "tmpfs", 0, "size=4k,nr_inodes=4"))
		}},
		{"umount", func(*Config) string { return answer(unix.Unmount("/tmp", unix.MNT_DETACH)) }},
		{"chroot", func(*Config) string { return answer(unix.Chroot("/tmp")) }},
		{"pivot-root", func(*Config) string { return answer(unix.PivotRoot("/tmp", "/tmp")) }},
		{"fsopen", func(*Config) string { return opened(unix.Fsopen("tmpfs", 0)) }},
		{"open-tree", func(*Config) string {
			return opened(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE))
		}},
		simple("keyctl", false, unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, keySpecSession, 1),
		{"bpf", func(*Config) string { return bpfQuery() }},
		{"perf-event-open", func(*Config) string { return perfEvent() }},
		{"io-uring-setup", func(*Config) string { return ioUring() }},
		simple("userfaultfd", true, unix.SYS_USERFAULTFD, unix.O_CLOEXEC|uffdUserModeOnly),
		{"open-by-handle-at", func(*Config) string {
			_, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), unix.O_RDONLY)
			return answer(err)
		}},
		{"name-to-handle-at", func(*Config) string {
			_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
			return answer(err)
		}},
		simple("clone3", false, unix.SYS_CLONE3, 0, 0),
		simple("personality", false, unix.SYS_PERSONALITY, addrNoRandomize),
		simple("memfd-secret", true, unix.SYS_MEMFD_SECRET, 0),
		simple("fanotify", true, unix.SYS_FANOTIFY_INIT, 0, 0),
		simple("syslog", false, unix.SYS_SYSLOG, syslogSizeBuffer),
		{"tiocsti", func(*Config) string { return pushInput(0) }},
		{"tiocsti-high-bits", func(*Config) string { return pushInput(1 << 32) }},
		{"x32-abi", func(*Config) string {
			if runtime.GOARCH != "amd64" {
				return None
			}
			return raw(false, x32Bit|unix.SYS_GETPID)
		}},
	}
}

// Numbers that golang.org/x/sys does not name, from the kernel's headers.
const (
	keySpecSession   = ^uintptr(0) - 2 // KEY_SPEC_SESSION_KEYRING, -3
	uffdUserModeOnly = 1               // UFFD_USER_MODE_ONLY
	addrNoRandomize  = 0x0040000       // ADDR_NO_RANDOMIZE
	syslogSizeBuffer = 10              // SYSLOG_ACTION_SIZE_BUFFER

	bpfAttrSize      = 16  // enough for BPF_PROG_GET_NEXT_ID
	ioUringParamSize = 120 // struct io_uring_params
)

// opened closes a descriptor that should not have been had.
func opened(fd int, err error) string {
	if err == nil {
		unix.Close(fd)
	}
	return answer(err)
}

func bpfQuery() string {
	attr := make([]byte, bpfAttrSize)
	_, _, errno := syscall.RawSyscall(unix.SYS_BPF, unix.BPF_PROG_GET_NEXT_ID, uintptr(unsafe.Pointer(&attr[0])), bpfAttrSize)
	return errnoAnswer(errno)
}

func ioUring() string {
	params := make([]byte, ioUringParamSize)
	fd, _, errno := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	return errnoAnswer(errno)
}

// errnoAnswer is answer for the bare number, whose zero is no error.
func errnoAnswer(errno syscall.Errno) string {
	if errno == 0 {
		return OK
	}
	return answer(errno)
}

func enterNamespace() string {
	fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(fd)
	return raw(false, unix.SYS_SETNS, uintptr(fd), unix.CLONE_NEWUTS)
}

func perfEvent() string {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return answer(err)
}

// pushInput tries to type into a terminal. The upper half of the command is
// ignored by the kernel, so a filter that compares all of it can be passed.
func pushInput(upper uintptr) string {
	fd := 0
	if pty, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		defer unix.Close(pty)
		fd = pty
	}
	letter := byte('x')
	_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI|upper, uintptr(unsafe.Pointer(&letter)))
	return errnoAnswer(errno)
}

// inheritedDescriptors lists the descriptors above 2 that came through exec:
// those without the close-on-exec flag, which Go sets on all of its own.
func inheritedDescriptors(*Config) string {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return answer(err)
	}
	var found []string
	for _, e := range dir {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			to, _ := os.Readlink("/proc/self/fd/" + e.Name())
			found = append(found, e.Name()+"="+to)
		}
	}
	return list(found)
}

// forkOnce forks with the clone flags given and reaps the child.
func forkOnce(flags uintptr) string {
	pid, errno := forkPaused(flags)
	if errno != 0 {
		return errnoAnswer(errno)
	}
	_ = syscall.Kill(int(pid), syscall.SIGKILL)
	var status syscall.WaitStatus
	_, err := syscall.Wait4(int(pid), &status, 0, nil)
	return answer(err)
}

// forkPaused forks a child that does nothing but wait to be killed. The child
// is a copy of one thread of a Go program: it must not leave this function.
//
//go:nosplit
//go:norace
func forkPaused(flags uintptr) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
