package runtime

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// streamChunk is the size of one read: the capacity of a pipe.
	streamChunk = 64 << 10
	// tailBytes is how much of the last line is kept, to find a "RESULT: ..."
	// in it.
	tailBytes = 64 << 10
	// discardPause is waited between two reads of output that nobody gets: a
	// program that floods is slowed down to some 12 MiB a second by its full pipe,
	// and costs the host next to nothing.
	discardPause = 5 * time.Millisecond
	// writerGrace is how long a consumer of the output may take for the last
	// chunks when the program has ended; what it has not taken then is given up
	// and the result says truncated.
	writerGrace = 5 * time.Second
)

// stream drains one of the program's output pipes for as long as a writer is
// left, passes the first limit bytes on, and counts the rest.
type stream struct {
	pipe  *os.File
	to    io.Writer // nil: discard
	limit int64
	over  func()

	mu        sync.Mutex
	total     int64
	truncated bool
	tail      []byte // the last line that is not empty
	lineDone  bool   // its end was seen
	tooLong   bool

	done chan struct{}
}

func newStream(pipe *os.File, to io.Writer, limit int64, over func()) *stream {
	return &stream{pipe: pipe, to: to, limit: limit, over: over, done: make(chan struct{})}
}

var streamBuffers = sync.Pool{New: func() any { b := make([]byte, streamChunk); return &b }}

// run drains the pipe until its end.
func (s *stream) run() {
	defer close(s.done)
	buf := streamBuffers.Get().(*[]byte)
	defer streamBuffers.Put(buf)
	for {
		n, err := s.pipe.Read(*buf)
		if n > 0 {
			s.take((*buf)[:n])
		}
		if _, over := s.usage(); over && err == nil {
			time.Sleep(discardPause)
		}
		if err != nil { // io.EOF: no writer is left
			return
		}
	}
}

func (s *stream) take(b []byte) {
	s.mu.Lock()
	room := max(0, s.limit-s.total)
	s.total += int64(len(b))
	first := int64(len(b)) > room && !s.truncated
	if int64(len(b)) > room {
		s.truncated = true
		b = b[:room]
	}
	s.keepTail(b)
	s.mu.Unlock()
	if first {
		s.over()
	}
	if s.to == nil || len(b) == 0 {
		return
	}
	if _, err := s.to.Write(b); err != nil {
		s.mu.Lock()
		s.to, s.truncated = nil, true // keep draining: the program is not to block
		s.mu.Unlock()
	}
}

// keepTail keeps the last line that is not empty. The cost is that of the bytes
// looked at, whatever their number in one read.
func (s *stream) keepTail(b []byte) {
	for len(b) > 0 {
		line, rest, found := bytes.Cut(b, []byte{'\n'})
		if s.lineDone && (len(line) > 0 || !found) {
			s.tail, s.lineDone, s.tooLong = s.tail[:0], false, false
		}
		if len(s.tail)+len(line) > tailBytes {
			s.tooLong = true // no result line
		}
		if !s.tooLong {
			s.tail = append(s.tail, line...)
		}
		if found && (len(s.tail) > 0 || s.tooLong) {
			s.lineDone = true
		}
		b = rest
	}
}

// finish waits for the end of the drain; everything that could write is dead.
// A consumer that does not take the last bytes in time loses them.
func (s *stream) finish() {
	t := time.NewTimer(writerGrace)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
		s.mu.Lock()
		s.truncated = true
		s.mu.Unlock()
		s.pipe.Close()
	}
}

// usage returns what was counted.
func (s *stream) usage() (total int64, truncated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.truncated
}

// lastLine returns the last line that is not empty, without its end; nil for one
// that is too long.
func (s *stream) lastLine() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tooLong {
		return nil
	}
	return s.tail
}

func (s *stream) close() {
	if s != nil {
		s.pipe.Close()
	}
}
