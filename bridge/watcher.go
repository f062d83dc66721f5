package bridge

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// watchBuffer holds about a thousand events with names as clients choose them,
// so that a burst costs few reads.
const watchBuffer = 64 << 10

// Watcher is the one inotify instance of a process, shared by all its sandboxes:
// the kernel allows a user only 128 of them. Make it before the first sandbox
// starts, so that a sandbox cannot use them up. It only passes names on; all work
// on files is done elsewhere, because a hostile program can make that block.
type Watcher struct {
	ino  *sys.Inotify // nil: polling
	done chan struct{}

	mu      sync.Mutex
	servers map[int32]*Server
	failed  bool // the instance broke while it ran
}

// NewWatcher makes the instance. Where inotify cannot be had the watcher polls,
// which costs up to 20 ms a call, and says so: see Polling.
func NewWatcher() (*Watcher, error) {
	w := &Watcher{done: make(chan struct{}), servers: map[int32]*Server{}}
	ino, err := sys.NewInotify()
	if err != nil {
		close(w.done)
		return w, nil
	}
	w.ino = ino
	go w.run()
	return w, nil
}

// newPollingWatcher is a watcher on a host without inotify, for tests.
func newPollingWatcher() *Watcher {
	w := &Watcher{done: make(chan struct{}), servers: map[int32]*Server{}}
	close(w.done)
	return w
}

// Polling reports whether the watcher works without inotify.
func (w *Watcher) Polling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ino == nil || w.failed
}

// Close ends the watcher and joins its goroutine. Servers that still run go on
// by their sweeps alone. It may be called more than once.
func (w *Watcher) Close() error {
	if w.ino == nil {
		return nil
	}
	err := w.ino.Close()
	<-w.done
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func (w *Watcher) run() {
	defer close(w.done)
	buf := make([]byte, watchBuffer)
	for {
		if err := w.ino.Read(buf, w.pass); err != nil {
			w.mu.Lock()
			w.failed = true
			for _, s := range w.servers {
				s.pollFromNow()
			}
			w.mu.Unlock()
			return
		}
	}
}

// pass hands one event to its server. It never blocks.
func (w *Watcher) pass(e sys.InotifyEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Mask&sys.InotifyOverflow != 0 {
		for _, s := range w.servers {
			s.wantSweep()
		}
		return
	}
	s := w.servers[e.WD]
	switch {
	case s == nil:
	case e.Mask&sys.InotifySelf != 0:
		s.wantSweep()
	case e.Mask&sys.InotifyMovedTo != 0:
		w.feed(s, event{name: string(e.Name)})
	case e.Mask&sys.InotifyDelete != 0:
		w.feed(s, event{name: string(e.Name), gone: true})
	}
}

// feed hands an event on. A sandbox that makes too many loses its watch for a
// while: reading them costs the host as much as making them costs the sandbox, and
// they would push the neighbours' events out of the queue. The lock is held.
func (w *Watcher) feed(s *Server, e event) {
	if !s.notify(e) {
		w.drop(s)
		s.muted.Store(time.Now().UnixNano())
	}
}

// watch adds a server's directory. false means that it has to poll.
func (w *Watcher) watch(s *Server) (ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ino == nil || w.failed {
		return false, nil
	}
	// Under the lock, so that no event of the new watch is looked up too early.
	wd, err := w.ino.WatchDir(s.reqFD)
	switch {
	case errors.Is(err, os.ErrExist):
		return false, &errdef.Error{Code: errdef.Exists, Op: "bridge", Msg: "the request directory is served already"}
	case err != nil: // out of watches, or no /proc
		return false, nil
	}
	w.servers[wd], s.wd = s, wd
	return true, nil
}

func (w *Watcher) unwatch(s *Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(s)
}

// drop takes a server's watch off, if there is one. The lock is held.
func (w *Watcher) drop(s *Server) {
	if s.wd < 0 {
		return
	}
	if _, ok := w.servers[s.wd]; ok {
		delete(w.servers, s.wd)
		w.ino.Unwatch(s.wd)
	}
	s.wd = -1
}
