package sys

import (
	"errors"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstInherited is the first descriptor that is none of the standard streams.
const firstInherited = 3

// searchedFDs is how far descriptors are searched for one by one where /proc
// cannot list them. More are marked all the same, they are only not reported.
const searchedFDs = 1024

// AdoptFDs marks every descriptor above standard error close-on-exec, so that
// nothing that this process starts inherits what its own caller left open. It
// returns those that were not marked before, which are the caller's: whatever
// Go opens itself is.
func AdoptFDs() []int {
	var adopted []int
	for _, fd := range openFDs() {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		unix.CloseOnExec(fd)
		adopted = append(adopted, fd)
	}
	// For what the list did not have; Linux 5.11 and later.
	_ = unix.CloseRange(firstInherited, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	return adopted
}

func openFDs() []int {
	var fds []int
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		for fd := firstInherited; fd < searchedFDs; fd++ {
			fds = append(fds, fd)
		}
		return fds
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= firstInherited {
			fds = append(fds, fd)
		}
	}
	return fds
}

// CloseOnExec reports whether an open descriptor has the close-on-exec flag.
func CloseOnExec(fd int) (bool, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return flags&unix.FD_CLOEXEC != 0, os.NewSyscallError("fcntl", err)
}

// SetCloseOnExec gives a descriptor the close-on-exec flag.
func SetCloseOnExec(fd int) { unix.CloseOnExec(fd) }

// OpenFor reports what an open descriptor can be used for; with O_PATH it is
// nothing.
func OpenFor(fd int) (read, write bool, err error) {
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return false, false, os.NewSyscallError("fcntl", err)
	}
	if mode&unix.O_PATH != 0 {
		return false, false, nil
	}
	access := mode & unix.O_ACCMODE
	return access != unix.O_WRONLY, access != unix.O_RDONLY, nil
}

// OpenUnnamed opens a file without a name in a directory (O_TMPFILE); it is gone
// with its descriptor unless [NameUnnamed] names it. A file system that has none
// answers with a nil file where the directory can be written.
func OpenUnnamed(dir string, mode uint32) (*os.File, error) {
	fd := -1
	err := retryEINTR(func() (err error) {
		fd, err = unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, mode)
		return err
	})
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL) {
		err = retryEINTR(func() error { return unix.Access(dir, unix.W_OK|unix.X_OK) })
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return nil, nil
}

// NameUnnamed gives a file of [OpenUnnamed] a name that nothing has.
func NameUnnamed(f *os.File, path string) error {
	fd, err := FileFD(f)
	if err != nil {
		return err
	}
	// The kernel's own way without privilege (open(2)).
	err = retryEINTR(func() error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	})
	if err != nil {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}
