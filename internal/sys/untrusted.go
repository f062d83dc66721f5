package sys

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ReadUntrusted reads a regular file of at most limit bytes below a directory
// that an attacker filled. See [DirOpenUntrusted] for how it is opened.
func ReadUntrusted(dirfd int, name string, limit int64) ([]byte, error) {
	fd, err := DirOpenUntrusted(dirfd, name)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("is or leads through a symbolic link")
	}
	if errors.Is(err, unix.EXDEV) {
		return nil, errors.New("leads out of the workspace")
	}
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	st, err := DirFstat(fd, name)
	switch {
	case err != nil:
		return nil, err
	case !st.Regular:
		return nil, errors.New("is not a regular file")
	case st.Size > limit:
		return nil, errors.New("is larger than the file limit")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, errors.New("is larger than the file limit")
	}
	return data, nil
}
