package sys

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The Dir functions work on a directory through a descriptor that the caller
// holds, never through a host path. Each retries EINTR and returns a
// *os.PathError that carries operation, name and errno. Every descriptor that
// they return is close-on-exec.

// dirRetry calls f until it is not interrupted and wraps its failure.
func dirRetry(op, name string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &os.PathError{Op: op, Path: name, Err: err}
		}
	}
}

// DirStat is what a caller may want to know of an open file.
type DirStat struct {
	Regular bool
	Nlink   uint64
	Size    int64
	UID     uint32
}

// DirOpenUntrusted opens a name in a directory that an attacker writes to, for
// reading. It resolves nothing: no link, magic link, other mount or path outside
// the directory; it neither waits (FIFO, lease) nor takes a terminal. There is
// no retry on EAGAIN: a file that is under a lease is refused like any other
// trick. There is no fallback for a kernel without openat2 (before 5.6).
func DirOpenUntrusted(dirfd int, name string) (int, error) {
	how := unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS |
			unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd := -1
	err := dirRetry("openat2", name, func() (err error) {
		fd, err = unix.Openat2(dirfd, name, &how)
		return err
	})
	return fd, err
}

// DirFstat describes an open descriptor.
func DirFstat(fd int, name string) (DirStat, error) {
	var st unix.Stat_t
	err := dirRetry("fstat", name, func() error { return unix.Fstat(fd, &st) })
	return DirStat{
		Regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
		Nlink:   uint64(st.Nlink), Size: st.Size, UID: st.Uid,
	}, err
}

// DirPread reads at most len(b) bytes from offset 0; it stops early only at the
// end of the file. The file may shrink or grow meanwhile: the count says what
// was really read.
func DirPread(fd int, name string, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		var c int
		err := dirRetry("pread", name, func() (err error) {
			c, err = unix.Pread(fd, b[n:], int64(n))
			return err
		})
		if err != nil {
			return n, err
		}
		if c == 0 {
			break
		}
		n += c
	}
	return n, nil
}

// DirReopen returns a descriptor of its own for the directory, with its own
// offset, fit for DirList.
func DirReopen(dirfd int) (int, error) {
	fd := -1
	err := dirRetry("openat", ".", func() (err error) {
		fd, err = unix.Openat(dirfd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// DirClose closes a descriptor. Linux frees it even when close is interrupted,
// so there is nothing to retry.
func DirClose(fd int) { _ = unix.Close(fd) }

// DirList calls visit with every name of the directory, in memory bounded by
// buf (8 KiB or more make sense), until visit returns false.
func DirList(dirfd int, buf []byte, visit func(name string) bool) error {
	err := dirRetry("lseek", ".", func() error { _, err := unix.Seek(dirfd, 0, 0); return err })
	if err != nil {
		return err
	}
	var names []string
	for {
		n := 0
		err := dirRetry("getdents64", ".", func() (err error) {
			n, err = unix.Getdents(dirfd, buf)
			return err
		})
		if err != nil || n <= 0 {
			return err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if !visit(name) {
				return nil
			}
		}
	}
}

// DirCreate makes a new file for writing; it never opens an existing one. mode
// is set regardless of the umask, which belongs to the embedding process.
func DirCreate(dirfd int, name string, mode fs.FileMode) (int, error) {
	fd := -1
	err := dirRetry("create", name, func() (err error) {
		fd, err = unix.Openat(dirfd, name,
			unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return -1, err
	}
	if err := dirRetry("fchmod", name, func() error { return unix.Fchmod(fd, uint32(mode.Perm())) }); err != nil {
		DirClose(fd)
		return -1, err
	}
	return fd, nil
}

// DirWrite writes all of b.
func DirWrite(fd int, name string, b []byte) error {
	for len(b) > 0 {
		var n int
		err := dirRetry("write", name, func() (err error) {
			n, err = unix.Write(fd, b)
			return err
		})
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// DirMarker makes an empty regular file in one call.
func DirMarker(dirfd int, name string, mode fs.FileMode) error {
	return dirRetry("mknod", name, func() error {
		return unix.Mknodat(dirfd, name, unix.S_IFREG|uint32(mode.Perm()), 0)
	})
}

// DirRename renames within the directory.
func DirRename(dirfd int, from, to string) error {
	return dirRetry("rename", to, func() error { return unix.Renameat(dirfd, from, dirfd, to) })
}

// DirUnlink removes a file.
func DirUnlink(dirfd int, name string) error {
	return dirRetry("unlink", name, func() error { return unix.Unlinkat(dirfd, name, 0) })
}

// DirFifo makes a FIFO and opens it for reading and writing without blocking:
// an open of both sides needs no reader, so a write never raises SIGPIPE. mode
// is set regardless of the umask.
func DirFifo(dirfd int, name string, mode fs.FileMode) (int, error) {
	err := dirRetry("mkfifo", name, func() error {
		return unix.Mknodat(dirfd, name, unix.S_IFIFO|uint32(mode.Perm()), 0)
	})
	if err != nil {
		return -1, err
	}
	fd := -1
	err = dirRetry("open", name, func() (err error) {
		fd, err = unix.Openat(dirfd, name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, err
	}
	if err := dirRetry("fchmod", name, func() error { return unix.Fchmod(fd, uint32(mode.Perm())) }); err != nil {
		DirClose(fd)
		return -1, err
	}
	return fd, nil
}

// DirPoke writes one byte to a FIFO opened by DirFifo. A full FIFO is no
// failure: whoever reads it has enough to wake up to.
func DirPoke(fd int) { _, _ = unix.Write(fd, []byte{1}) }

// DirNoSpace reports whether the error says that a file system is full: of
// bytes, inodes or quota.
func DirNoSpace(err error) bool {
	pe, ok := err.(*os.PathError)
	return ok && (pe.Err == syscall.ENOSPC || pe.Err == syscall.EDQUOT)
}
