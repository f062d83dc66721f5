package hostfile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxrun/sbxrun/errdef"
)

// firstFD is the first descriptor that a record may go to: 0 to 2 belong to the
// program.
const firstFD = 3

// FD returns the descriptor number that text stands for; ok is false where it
// is a path. A file with a number for a name is written "./3".
func FD(text string) (fd int, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	fd, err := strconv.Atoi(text)
	if err != nil {
		return -1, true
	}
	return fd, true
}

// inherited takes over a descriptor that the caller left open for writing.
func inherited(fd int) (*os.File, error) {
	if fd >= 0 && fd < firstFD {
		return nil, &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("descriptor %d belongs to the program (allowed: 3 or more, or a path)", fd),
			Hint: `open one for it, such as "--result 3 3>result.json"`}
	}
	closed := &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("descriptor %d is not open", fd),
		Hint: fmt.Sprintf(`open it, such as "%d>FILE"; a file of that name is written "./%d"`, fd, fd)}
	if fd < 0 {
		closed.Msg, closed.Hint = "the descriptor number is too large", ""
		return nil, closed
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	// What came through exec cannot have the close-on-exec flag; with it, the
	// descriptor is one that Go's runtime opened for itself.
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, closed
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, closed
	}
	if mode&unix.O_ACCMODE == unix.O_RDONLY || mode&unix.O_PATH != 0 {
		return nil, &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("descriptor %d is not open for writing", fd)}
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "descriptor "+strconv.Itoa(fd)), nil
}

// Lines is a sink for lines: an open descriptor, or a regular file that is
// appended to.
type Lines struct {
	mu   sync.Mutex
	file *os.File
}

// OpenLines opens the sink that text names.
func OpenLines(text, path string) (*Lines, error) {
	if fd, ok := FD(text); ok {
		f, err := inherited(fd)
		if err != nil {
			return nil, err
		}
		return &Lines{file: f}, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOFOLLOW|syscall.O_NOCTTY, 0o644)
	if err != nil {
		if kind := CheckDest(path); kind != nil {
			return nil, kind
		}
		return nil, pathError(path, "cannot be written", err)
	}
	st, err := f.Stat()
	if err == nil {
		err = regular(path, st.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Lines{file: f}, nil
}

// Write appends one line in a single write, so that lines of several processes
// in one file stay whole.
func (l *Lines) Write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.Write(append(line, '\n'))
	return err
}

// Close closes the sink.
func (l *Lines) Close() error { return l.file.Close() }
