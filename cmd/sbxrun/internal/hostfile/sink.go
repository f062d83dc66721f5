package hostfile

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// firstFD is the first descriptor that a record may go to: 0 to 2 belong to the
// program.
const firstFD = 3

// WriteTime is how long one write may take. Only a pipe, socket or terminal that
// nobody reads takes it; without a bound, it would keep sbxrun for ever.
const WriteTime = 5 * time.Second

// FD returns the descriptor number that text stands for; ok is false where it
// is a path. A file with a number for a name is written "./3". A number that no
// descriptor can have, a negative one among them, is returned as -1.
func FD(text string) (fd int, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	fd, err := strconv.Atoi(digits)
	if err != nil || negative || fd > maxFD {
		return -1, true
	}
	return fd, true
}

// maxFD is the largest number that a descriptor can have.
const maxFD = 1<<31 - 1

// adopted are the caller's descriptors that nobody has taken yet; they belong to
// the process as a whole, as descriptors do.
var adopted struct {
	sync.Mutex
	fds []int
}

// Adopt takes over what the caller of the process left open: nothing that is
// started later inherits it, and a record can still be sent to it by number.
func Adopt() {
	fds := sys.AdoptFDs()
	adopted.Lock()
	defer adopted.Unlock()
	adopted.fds = append(adopted.fds, fds...)
}

// take reports whether the descriptor is the caller's and not taken, and takes
// it.
func take(fd int) bool {
	adopted.Lock()
	defer adopted.Unlock()
	if i := slices.Index(adopted.fds, fd); i >= 0 {
		adopted.fds = slices.Delete(adopted.fds, i, i+1)
		return true
	}
	// What came through exec cannot have the close-on-exec flag; with it, the
	// descriptor is one that Go's runtime opened for itself.
	marked, err := sys.CloseOnExec(fd)
	return err == nil && !marked
}

// inherited takes over a descriptor that the caller left open for writing.
func inherited(fd int) (*os.File, error) {
	if fd < 0 {
		return nil, &errdef.Error{Code: errdef.Invalid, Msg: "no descriptor has such a number (allowed: 3 or more, or a path)",
			Hint: `a file with a number for a name is written "./-1"`}
	}
	if fd < firstFD {
		return nil, &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("descriptor %d belongs to the program (allowed: 3 or more, or a path)", fd),
			Hint: `open one for it, such as "--result 3 3>result.json"`}
	}
	closed := &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("descriptor %d is not open", fd),
		Hint: fmt.Sprintf(`open it, such as "%d>FILE"; a file of that name is written "./%d"`, fd, fd)}
	if !take(fd) {
		return nil, closed
	}
	_, write, err := sys.OpenFor(fd)
	if err != nil {
		return nil, closed
	}
	if !write {
		return nil, &errdef.Error{Code: errdef.Invalid, Msg: fmt.Sprintf("descriptor %d is not open for writing", fd)}
	}
	sys.SetCloseOnExec(fd)
	return os.NewFile(uintptr(fd), "descriptor "+strconv.Itoa(fd)), nil
}

// WriteBounded writes to a file that is not known to take anything, such as a
// pipe, for at most [WriteTime]. A write that has not come back by then is
// abandoned, and ends with the process: the descriptor may be shared with other
// processes, so it cannot be made non-blocking.
func WriteBounded(f *os.File, data []byte) error { return writeWithin(f, data, WriteTime) }

func writeWithin(f *os.File, data []byte, limit time.Duration) error {
	done := make(chan error, 1)
	go func() {
		_, err := f.Write(data)
		done <- err
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return &errdef.Error{Code: errdef.Resource, Msg: fmt.Sprintf("nothing was read for %v", limit), Errno: syscall.ETIMEDOUT,
			Hint: "something has to read the pipe, socket or terminal while sbxrun runs"}
	}
}

// Lines is a sink for lines: an open descriptor, or a regular file that is
// appended to.
type Lines struct {
	mu     sync.Mutex
	file   *os.File
	limit  time.Duration
	failed error
}

// OpenLines opens the sink that text names.
func OpenLines(text, path string) (*Lines, error) {
	if fd, ok := FD(text); ok {
		f, err := inherited(fd)
		if err != nil {
			return nil, err
		}
		return &Lines{file: f, limit: WriteTime}, nil
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
	return &Lines{file: f, limit: WriteTime}, nil
}

// Write appends one line in a single write, so that lines of several processes
// in one file stay whole. After a failure the sink takes nothing more: part of a
// line may be in it.
func (l *Lines) Write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = writeWithin(l.file, append(line, '\n'), l.limit)
	}
	return l.failed
}

// Err returns the failure of an earlier Write, nil without one.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close closes the sink.
func (l *Lines) Close() error { return l.file.Close() }
