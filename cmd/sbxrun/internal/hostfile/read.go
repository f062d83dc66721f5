// Package hostfile reads and writes the host files that the command line names:
// profiles, the result record, the event log. The paths are the operator's and
// trusted, yet a FIFO, a device or a link in a file's place is refused: it would
// hang the run, or write where nobody looked.
package hostfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/errdef"
)

// Read returns the content of a regular file of at most most bytes.
func Read(path string, most int64) ([]byte, error) {
	// Non-blocking, so that a FIFO without a writer is an error and no wait.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, pathError(path, "cannot be read", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, pathError(path, "cannot be read", err)
	}
	if err := regular(path, st.Mode()); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, pathError(path, "cannot be read", err)
	}
	if int64(len(data)) > most {
		return nil, refuse(path, "larger than "+values.FormatSize(most))
	}
	return data, nil
}

// CheckSource refuses a path that is not a regular file, without following a
// link in its last part.
func CheckSource(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return pathError(path, "cannot be read", err)
	}
	return regular(path, st.Mode())
}

// CheckDest refuses a path that a file cannot be put at: something other than a
// regular file is there, or its folder is none.
func CheckDest(path string) error {
	if st, err := os.Lstat(path); err == nil {
		return regular(path, st.Mode())
	} else if !errors.Is(err, fs.ErrNotExist) {
		return pathError(path, "cannot be written", err)
	}
	dir := parent(path)
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		return pathError(dir, "the folder cannot be used", err)
	case !st.IsDir():
		return refuse(dir, "not a folder")
	}
	return nil
}

// regular refuses every other kind of file by its name.
func regular(path string, mode fs.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return refuse(path, "is "+Kind(mode)+", not a regular file")
}

// Kind names the kind of a file.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a regular file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

func refuse(path, what string) error {
	return &errdef.Error{Code: errdef.Invalid, Path: Shown(path), Msg: what}
}

// pathError keeps the kernel's reason only: the path is named once already.
func pathError(path, what string, err error) error {
	e := &errdef.Error{Code: errdef.Invalid, Path: Shown(path), Msg: what}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		e.Errno = errno
	} else {
		e.Err = err
	}
	return e
}

// Shown returns the path as one printable line, whole: a cut path names nothing.
func Shown(path string) string {
	if path == "" || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return strconv.Quote(path)
	}
	return path
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	switch {
	case i < 0:
		return "."
	case i == 0:
		return "/"
	}
	return path[:i]
}
