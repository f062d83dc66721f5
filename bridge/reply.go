package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
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

// errNoRoom means that too many replies wait to be fetched.
var errNoRoom = errors.New("the unfetched replies fill the quota")

// publish writes the reply: complete or not at all, then the marker, then the
// doorbell. It returns what was answered in the end.
func (s *Server) publish(c *call, raw json.RawMessage, te *ToolError, detail string) (*ToolError, string) {
	s.mu.Lock()
	c.entry.state = publishing
	s.mu.Unlock()
	size, spilled := int64(0), false
	var err error
	if te == nil {
		if size, spilled, err = s.publishResult(c.entry.id, raw); err != nil {
			te, detail = refuse(TooLarge, "there is no room for the result"), err.Error()
			if errors.Is(err, errNoRoom) {
				te = refuse(Overloaded, "too many replies wait to be fetched")
			}
		}
	}
	if te != nil {
		size, err = s.publishError(c.entry.id, te)
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
	s.ring(c.bell)
	s.published(c.entry, size, spilled)
	return te, detail
}

// publishResult writes a result, in the reply or beside it.
func (s *Server) publishResult(id string, raw json.RawMessage) (size int64, spilled bool, err error) {
	name := respPrefix + id + respSuffix
	if len(raw) <= s.lim.Reply {
		body := make([]byte, 0, len(raw)+len(id)+32)
		body = append(body, `{"v":1,"id":"`...)
		body = append(body, id...) // letters, digits, _ and - need no quoting
		body = append(body, `","result":`...)
		body = append(body, raw...)
		body = append(body, '}')
		return int64(len(body)), false, s.write(name, body)
	}
	spill := spillPrefix + id + spillSuffix
	if err := s.write(spill, raw); err != nil {
		return 0, false, err
	}
	sum := sha256.Sum256(raw)
	body := fmt.Appendf(nil, `{"v":1,"id":%q,"spill":{"path":%q,"size":%d,"sha256":%q}}`, id, spill, len(raw), hex.EncodeToString(sum[:]))
	if err := s.write(name, body); err != nil {
		_ = sys.DirUnlink(s.respFD, spill) // best effort: the mount dies with the sandbox
		s.release(len(raw))
		return 0, false, err
	}
	return int64(len(body) + len(raw)), true, nil
}

// publishError writes a failure, without its details where they do not fit.
func (s *Server) publishError(id string, te *ToolError) (int64, error) {
	body := te.body(id)
	err := s.write(respPrefix+id+respSuffix, body)
	if err != nil && len(body) > smallReply {
		short := *te
		short.Details = nil
		body = short.body(id)
		err = s.write(respPrefix+id+respSuffix, body)
	}
	return int64(len(body)), err
}

// write makes a file under a temporary name and renames it. When the file system
// or the quota is full, old replies make room. Its bytes count from before it can
// be seen.
func (s *Server) write(name string, data []byte) error {
	s.mu.Lock()
	s.temp++
	temp := tempPrefix + strconv.Itoa(s.temp)
	s.mu.Unlock()
	if !s.makeRoom(len(data)) {
		return errNoRoom
	}
	err := s.retryFull(func() error { return s.create(temp, name, data) })
	if err != nil {
		s.release(len(data))
	}
	return err
}

func (s *Server) create(temp, name string, data []byte) error {
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
}

// release takes bytes back that were counted for a file that is not there.
func (s *Server) release(size int) {
	s.mu.Lock()
	s.bytes -= int64(size)
	s.mu.Unlock()
}

// retryFull repeats f while there is no space and an older reply can be cut.
func (s *Server) retryFull(f func() error) error {
	for {
		err := f()
		if err == nil || !sys.DirNoSpace(err) || !s.evictOldest() {
			return err
		}
	}
}

// makeRoom counts so many bytes; old replies are cut until the quota holds.
// false means that it does not, and nothing was counted. Small replies always
// have room.
func (s *Server) makeRoom(size int) bool {
	for {
		s.mu.Lock()
		fits := s.bytes+int64(size) <= s.lim.ReplyQuota
		if fits {
			s.bytes += int64(size)
		}
		s.mu.Unlock()
		if fits {
			return true
		}
		if !s.evictOldest() {
			break
		}
	}
	if size > smallReply {
		return false
	}
	s.release(-size)
	return true
}

// full reports whether the unfetched replies leave no room for another call.
func (s *Server) full() bool {
	for {
		s.mu.Lock()
		files, bytes := s.replies.Len() >= s.lim.ReplyFiles, s.bytes >= s.lim.ReplyQuota
		s.mu.Unlock()
		if !bytes || files {
			return files
		}
		if !s.evictOldest() {
			return true
		}
	}
}

// oldest returns the first reply that may be cut, nil without one. The lock is
// held.
func (s *Server) oldest() *entry {
	for el := s.replies.Front(); el != nil; el = el.Next() {
		e := el.Value.(*entry)
		if e.size > smallReply || e.spill {
			if time.Since(e.done) >= s.lim.keep {
				return e
			}
			return nil // those behind it are younger
		}
	}
	return nil
}

// evictOldest cuts the oldest reply that nobody fetched for a while to a short one,
// so that no caller waits in vain. false means that there is none.
func (s *Server) evictOldest() bool {
	s.mu.Lock()
	e := s.oldest()
	if e == nil {
		s.mu.Unlock()
		return false
	}
	spill := e.spill
	s.forget(e, publishing)
	e.spill = false
	s.stats.Evicted++
	s.temp++
	temp := tempPrefix + strconv.Itoa(s.temp)
	s.mu.Unlock()
	if spill {
		_ = sys.DirUnlink(s.respFD, spillPrefix+e.id+spillSuffix)
	}
	body := refuse(TooLarge, "the result was not fetched in time and made room for others").body(e.id)
	name := respPrefix + e.id + respSuffix
	err := s.create(temp, name, body)
	if err != nil { // not a page is left but those of the reply itself
		_ = sys.DirUnlink(s.respFD, name)
		err = s.create(temp, name, body)
	}
	s.audit(Record{Event: "evicted", Call: e.id, Code: TooLarge})
	if err != nil {
		s.mu.Lock()
		e.state = evicted
		s.mu.Unlock()
		return true
	}
	s.mu.Lock()
	s.bytes += int64(len(body))
	s.mu.Unlock()
	s.published(e, int64(len(body)), false)
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
		e.state, e.size, e.gen, e.done = answered, size, s.sweepGen, time.Now()
		e.elem = s.replies.PushBack(e)
	}
	s.mu.Unlock()
	if fetched {
		s.remove(e)
	}
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
