package sys

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Inotify is one inotify instance. It is safe for concurrent use, but only one
// goroutine may call Read.
type Inotify struct {
	f  *os.File // owned by the run-time poller, so that Close wakes Read
	fd int
}

// InotifyEvent is one event. Name aliases the read buffer.
type InotifyEvent struct {
	WD   int32
	Mask uint32
	Name []byte
}

// The kinds of events that callers tell apart.
const (
	InotifyMovedTo  = unix.IN_MOVED_TO
	InotifyDelete   = unix.IN_DELETE
	InotifyOverflow = unix.IN_Q_OVERFLOW
	// InotifySelf is the union of the events about the watched directory itself.
	InotifySelf = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
)

// inotifyHeader is the size of the fixed part of struct inotify_event.
const inotifyHeader = unix.SizeofInotifyEvent

// NewInotify makes an instance (close-on-exec, non-blocking).
func NewInotify() (*Inotify, error) {
	var fd int
	err := dirRetry("inotify_init1", "inotify", func() (err error) {
		fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Inotify{f: os.NewFile(uintptr(fd), "inotify"), fd: fd}, nil
}

// WatchDir watches an open directory for names that are moved in or deleted and
// for its own end. A directory that is watched already is EEXIST. It goes
// through /proc/self/fd because no path of a sandbox's directory exists on the
// host.
func (n *Inotify) WatchDir(dirfd int) (int32, error) {
	path := "/proc/self/fd/" + strconv.Itoa(dirfd)
	mask := uint32(unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF |
		unix.IN_ONLYDIR | unix.IN_MASK_CREATE)
	wd := 0
	err := dirRetry("inotify_add_watch", path, func() (err error) {
		wd, err = unix.InotifyAddWatch(n.fd, path, mask)
		return err
	})
	return int32(wd), err
}

// Unwatch ends a watch. One that ended by itself is no failure.
func (n *Inotify) Unwatch(wd int32) {
	_, _ = unix.InotifyRmWatch(n.fd, uint32(wd))
}

// Read waits for events and calls visit for each. It returns an error once the
// instance is closed. buf needs room for at least one event with a name of 255
// bytes.
func (n *Inotify) Read(buf []byte, visit func(InotifyEvent)) error {
	c, err := n.f.Read(buf)
	if err != nil {
		return err
	}
	for b := buf[:c]; len(b) >= inotifyHeader; {
		size := inotifyHeader + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			break
		}
		name := b[inotifyHeader:size]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		visit(InotifyEvent{
			WD:   int32(binary.NativeEndian.Uint32(b)),
			Mask: binary.NativeEndian.Uint32(b[4:]),
			Name: name,
		})
		b = b[size:]
	}
	return nil
}

// Close ends the instance and wakes Read.
func (n *Inotify) Close() error { return n.f.Close() }
