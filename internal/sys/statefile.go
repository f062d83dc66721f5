package sys

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock takes an exclusive flock(2) without waiting; false means that another
// open file holds it. The lock ends with the last descriptor of this open file.
func TryLock(f *os.File) (bool, error) {
	err := retryEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return true, nil
}

// Linked reports whether an open file still has a name.
func Linked(f *os.File) bool {
	var st unix.Stat_t
	return retryEINTR(func() error { return unix.Fstat(int(f.Fd()), &st) }) == nil && st.Nlink > 0
}

// OpenNoFollow opens a regular file for reading without following a link and
// without waiting for anything.
func OpenNoFollow(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// CheckPrivateDir verifies that a directory belongs to uid and that nobody else
// can write to it.
func CheckPrivateDir(path string, uid int) error {
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Lstat(path, &st) }); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return errors.New("is not a directory")
	case int(st.Uid) != uid:
		return errors.New("belongs to another user")
	case st.Mode&0o022 != 0:
		return errors.New("is writable for others")
	}
	return nil
}
