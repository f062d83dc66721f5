package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"unicode/utf8"

	"github.com/sbxrun/sbxrun/internal/sys"
)

const (
	// replyMode lets every process of the sandbox read, and nobody write.
	replyMode fs.FileMode = 0o444
	// bellMode lets the sandbox open a doorbell for reading and lock it; a byte
	// can only come from the host.
	bellMode fs.FileMode = 0o644
	// tempPrefix starts a name that is on its way; the directory cannot be listed
	// from inside.
	tempPrefix = ".t"
)

// panicError is a recovered panic; gateError is a failure of the approval gate.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

type gateError struct{ err error }

func (e *gateError) Error() string { return "approval: " + e.err.Error() }

// validResult reports whether a handler's result is one JSON value.
func validResult(raw json.RawMessage) bool { return utf8.Valid(raw) && json.Valid(raw) }

// answer publishes the outcome of a call, counts it and records it. A call of a
// closing server is only recorded: nobody is left to read.
func (s *Server) answer(c *call, raw json.RawMessage, te *ToolError, detail string) {
	if s.closing.Load() {
		if te == nil {
			te = refuse(Closed, "the run is over")
			detail = "a late result was dropped"
		}
	} else if !c.silent {
		te, detail = s.publish(c, raw, te, detail)
	}
	code := OK
	if te != nil {
		code = te.code()
		raw = nil
	}
	s.count(c, code)
	if s.cfg.Audit != nil {
		s.audit(s.record(c, Record{Code: code, ResultSize: len(raw), Detail: detail}))
	}
}

// refuse answers a claimed request without running it.
func (s *Server) refuse(c *call, te *ToolError) {
	s.answer(c, nil, te, "")
	s.countRefusal()
}

// publish writes the reply: complete or not at all, then the marker, then the
// doorbell. It returns what was answered in the end.
func (s *Server) publish(c *call, raw json.RawMessage, te *ToolError, detail string) (*ToolError, string) {
	spilled := false
	var body []byte
	switch {
	case te != nil:
		body = te.body(c.entry.id)
	case len(raw) > s.lim.Reply:
		var err error
		if body, err = s.spill(c.entry.id, raw); err != nil {
			te, detail = refuse(TooLarge, "there is no room for the result"), err.Error()
			body = te.body(c.entry.id)
			break
		}
		spilled = true
	default:
		body = make([]byte, 0, len(raw)+len(c.entry.id)+32)
		body = append(body, `{"v":1,"id":"`...)
		body = append(body, c.entry.id...) // letters, digits, _ and - need no quoting
		body = append(body, `","result":`...)
		body = append(body, raw...)
		body = append(body, '}')
	}
	s.mu.Lock()
	c.entry.state = publishing
	c.entry.spill = spilled
	s.mu.Unlock()
	err := s.write(respPrefix+c.entry.id+respSuffix, body)
	if err != nil && te == nil {
		if spilled {
			_ = sys.DirUnlink(s.respFD, spillPrefix+c.entry.id+spillSuffix)
			s.release(len(raw))
			spilled = false
		}
		te, detail = refuse(TooLarge, "there is no room for the result"), err.Error()
		body = te.body(c.entry.id)
		err = s.write(respPrefix+c.entry.id+respSuffix, body)
	}
	if err != nil {
		// Not even a refusal fits. The caller waits for its own deadline.
		s.mu.Lock()
		c.entry.state = evicted
		s.mu.Unlock()
		return refuse(Internal, "the reply could not be written"), err.Error()
	}
	// A missing marker costs an older client its answer, a present body serves
	// all others.
	_ = s.retryFull(func() error {
		return sys.DirMarker(s.respFD, respPrefix+c.entry.id+doneSuffix, replyMode)
	})
	size := int64(len(body))
	if spilled {
		size += int64(len(raw))
	}
	s.ring(c.bell)
	s.published(c.entry, size, spilled)
	return te, detail
}

// spill writes a large result to a file of its own and returns the reply that
// announces it.
func (s *Server) spill(id string, raw json.RawMessage) ([]byte, error) {
	name := spillPrefix + id + spillSuffix
	if err := s.write(name, raw); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	return fmt.Appendf(nil, `{"v":1,"id":%q,"spill":{"path":%q,"size":%d,"sha256":%q}}`,
		id, name, len(raw), hex.EncodeToString(sum[:])), nil
}

// write makes a file under a temporary name and renames it. When the file system
// or the quota is full the oldest replies make room. Its bytes count from before
// it can be seen.
func (s *Server) write(name string, data []byte) error {
	s.mu.Lock()
	s.temp++
	temp := tempPrefix + strconv.Itoa(s.temp)
	s.mu.Unlock()
	s.makeRoom(len(data))
	err := s.retryFull(func() error {
		fd, err := sys.DirCreate(s.respFD, temp, replyMode)
		if err != nil {
			return err
		}
		err = sys.DirWrite(fd, name, data)
		sys.DirClose(fd)
		if err == nil {
			err = sys.DirRename(s.respFD, temp, name)
		}
		if err != nil {
			_ = sys.DirUnlink(s.respFD, temp) // best effort: the mount dies with the sandbox
		}
		return err
	})
	if err != nil {
		s.release(len(data))
	}
	return err
}

// release takes bytes back that were counted for a file that is not there.
func (s *Server) release(size int) {
	s.mu.Lock()
	s.bytes -= int64(size)
	s.mu.Unlock()
}

// retryFull repeats f while there is no space and an older reply can go.
func (s *Server) retryFull(f func() error) error {
	for {
		err := f()
		if err == nil || !sys.DirNoSpace(err) || !s.evictOldest() {
			return err
		}
	}
}

// makeRoom counts so many bytes and drops the oldest replies until the quota
// holds.
func (s *Server) makeRoom(size int) {
	s.mu.Lock()
	s.bytes += int64(size)
	s.mu.Unlock()
	for {
		s.mu.Lock()
		over := s.bytes > s.lim.ReplyQuota || s.replies.Len() > s.lim.ReplyFiles
		s.mu.Unlock()
		if !over || !s.evictOldest() {
			return
		}
	}
}

// evictOldest removes the oldest reply that nobody fetched, false without one.
func (s *Server) evictOldest() bool {
	s.mu.Lock()
	front := s.replies.Front()
	if front == nil {
		s.mu.Unlock()
		return false
	}
	e := front.Value.(*entry)
	s.forget(e, evicted)
	s.stats.Evicted++
	s.mu.Unlock()
	s.remove(e)
	return true
}

// forget takes an entry off the list of replies. The lock is held.
func (s *Server) forget(e *entry, state entryState) {
	s.replies.Remove(e.elem)
	s.bytes -= e.size
	e.elem, e.state = nil, state
}

// remove deletes an entry's files. A failure leaves garbage within the quota of
// a mount that dies with the sandbox.
func (s *Server) remove(e *entry) {
	_ = sys.DirUnlink(s.respFD, respPrefix+e.id+doneSuffix)
	_ = sys.DirUnlink(s.respFD, respPrefix+e.id+respSuffix)
	if e.spill {
		_ = sys.DirUnlink(s.respFD, spillPrefix+e.id+spillSuffix)
	}
}

// published enters a reply into the list, or removes it at once when its caller
// has fetched it already.
func (s *Server) published(e *entry, size int64, spilled bool) {
	s.mu.Lock()
	fetched := e.lost
	e.lost, e.spill = false, spilled
	if fetched {
		e.state = gone // its caller was faster than this line
		s.bytes -= size
	} else {
		e.state, e.size, e.gen = answered, size, s.sweepGen
		e.elem = s.replies.PushBack(e)
	}
	s.mu.Unlock()
	if fetched {
		s.remove(e)
		return
	}
	s.makeRoom(0) // those that were published at the same time count only now
}

// requestGone is the acknowledgement: the caller removed its request.
func (s *Server) requestGone(id string) {
	s.mu.Lock()
	e := s.entries[id]
	drop := false
	switch {
	case e == nil: // swept never, deleted early
		s.mu.Unlock()
		s.noise()
		return
	case e.state == publishing:
		e.lost = true
	case e.state == answered:
		s.forget(e, gone)
		drop = true
	case e.state == evicted:
		e.state = gone
	}
	again := e.removed
	e.removed = true
	s.mu.Unlock()
	if again {
		s.noise()
	}
	if drop {
		s.remove(e)
	}
}

// dropFetched removes the replies whose request the sweep gen did not see.
func (s *Server) dropFetched(gen int) {
	var drop []*entry
	s.mu.Lock()
	for el := s.replies.Front(); el != nil; {
		e := el.Value.(*entry)
		el = el.Next()
		if e.gen < gen {
			s.forget(e, gone)
			drop = append(drop, e)
		}
	}
	s.mu.Unlock()
	for _, e := range drop {
		s.remove(e)
	}
}
