package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/internal/sys"
)

// listBuffer is the memory for reading the request directory, in bytes.
const listBuffer = 16 << 10

// request is a request's body, checked.
type request struct {
	tool    string
	args    json.RawMessage
	tree    any
	lone    bool
	timeout time.Duration // 0: none
	bell    int           // -1: none
}

// event acts on one hint of the watch.
func (s *Server) event(e event) {
	id, ok := requestID(e.name)
	if !ok {
		if e.name == resultName && s.resultEvents < freeResults {
			s.resultEvents++
		} else {
			s.noise()
		}
		return
	}
	if e.gone {
		s.requestGone(id)
		return
	}
	s.mu.Lock()
	known := s.entries[id]
	if known == nil {
		s.mu.Unlock()
		s.claim(id, e.name, true)
		return
	}
	first := !known.moved
	known.moved = true
	s.mu.Unlock()
	// The first event of an id that a sweep claimed is only late. Every other one
	// is a replay.
	if !first {
		s.replay(known)
	}
}

// sweep reads the directory whole: it is the truth, events are only hints. It
// reports whether it found a new request.
func (s *Server) sweep() bool {
	s.mu.Lock()
	s.sweepGen++
	gen := s.sweepGen
	stop := s.flooded
	s.mu.Unlock()
	if stop {
		return false
	}
	found := false
	err := sys.DirList(s.listFD, make([]byte, listBuffer), func(name string) bool {
		id, ok := requestID(name)
		if !ok {
			return true // counted when it was made, not at every sweep
		}
		s.mu.Lock()
		known := s.entries[id]
		back := false
		if known != nil {
			back = known.state == gone
			known.gen = gen
		}
		stop = s.flooded
		s.mu.Unlock()
		switch {
		case stop:
			return false
		case known == nil:
			found = true
			s.claim(id, name, false)
		case back:
			s.replay(known)
		}
		return !s.closing.Load()
	})
	if err == nil && !stop && !s.closing.Load() {
		s.dropFetched(gen)
	}
	return found
}

// claim takes a new id, reads its request and queues or refuses it.
func (s *Server) claim(id, name string, moved bool) {
	s.mu.Lock()
	if s.flooded {
		s.mu.Unlock()
		return
	}
	e := &entry{id: id, moved: moved, gen: s.sweepGen}
	s.entries[id] = e
	s.mu.Unlock()

	c := &call{entry: e, seen: time.Now(), tool: -1, bell: -1}
	raw, refusal := readUntrusted(s.reqFD, name, s.cfg.UID, s.lim.Request)
	if refusal != nil {
		s.refuse(c, &refusal.ToolError)
		return
	}
	req, err := parseRequest(raw, s.lim)
	c.bell = req.bell
	s.growBells(req.bell)
	if err != nil {
		s.refuse(c, refuse(BadRequest, err.Error()))
		return
	}
	c.name, c.args, c.lone, c.size = req.tool, req.args, req.lone, int64(len(raw))
	if req.timeout > 0 {
		c.deadline = c.seen.Add(req.timeout)
	}
	if te := s.admit(c, req.tree); te != nil {
		s.refuse(c, te)
	}
}

// replay answers an id that was served before. It is refused whatever it holds;
// the reply is not touched while the first one is there or on its way.
func (s *Server) replay(e *entry) {
	s.mu.Lock()
	stop := s.flooded
	again := e.state == gone
	if again {
		e.state = inFlight
		e.gen = s.sweepGen
	}
	s.mu.Unlock()
	if stop {
		return
	}
	c := &call{entry: e, seen: time.Now(), tool: -1, bell: -1, silent: !again}
	s.refuse(c, refuse(BadRequest, "this request id was used before"))
}

// noise counts events that an honest program does not cause: about names that are
// no requests, and more than one removal of a request. Too many at a time cost the
// sandbox its watch, and what is not seen meanwhile counts at the same rate.
func (s *Server) noise() {
	now := time.Now()
	if now.Sub(s.noiseWindow) > eventWindow {
		s.noiseWindow, s.noiseInside = now, 0
	}
	n := 1
	if s.noiseInside++; s.noiseInside == maxNoise {
		s.w.unwatch(s)
		s.muted.Store(now.UnixNano())
		n += maxNoise * int(eventRest/eventWindow)
	}
	s.addNoise(n)
}

func (s *Server) addNoise(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.stats.Noise += n
	flood := s.stats.Noise >= s.lim.Flood*noiseFactor
	s.mu.Unlock()
	if flood {
		s.flood()
	}
}

// fileRefusal is why a file was not read.
type fileRefusal struct {
	ToolError
	missing bool
}

// readUntrusted reads a small plain file that an attacker made: one open that
// neither waits nor follows, one look at what was opened, one bounded read into
// memory of our own. No reason tells more than the program knows itself.
func readUntrusted(dirfd int, name string, uid uint32, limit int) ([]byte, *fileRefusal) {
	no := func(code Code, text string) *fileRefusal { return &fileRefusal{ToolError: *refuse(code, text)} }
	fd, err := sys.DirOpenUntrusted(dirfd, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			r := no(BadRequest, "the request file went away")
			r.missing = true
			return nil, r
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return nil, no(Internal, "the host is out of resources")
		}
		return nil, no(BadRequest, "not a plain file")
	}
	defer sys.DirClose(fd)
	st, err := sys.DirFstat(fd, name)
	switch {
	case err != nil || !st.Regular:
		return nil, no(BadRequest, "not a plain file")
	case st.Nlink != 1:
		return nil, no(BadRequest, "the file has more than one name")
	case st.UID != uid:
		return nil, no(BadRequest, "the file is not the program's")
	case st.Size == 0:
		return nil, no(BadRequest, "the file is empty")
	case st.Size > int64(limit):
		return nil, no(TooLarge, fmt.Sprintf("more than %d bytes", limit))
	}
	buf := make([]byte, st.Size+1)
	n, err := sys.DirPread(fd, name, buf)
	if err != nil || int64(n) != st.Size {
		return nil, no(BadRequest, "the file changed while it was read")
	}
	return buf[:n], nil
}

// parseRequest checks a request's body. The doorbell is returned even with an
// error, as far as it was read, so that the refusal can wake its caller.
func parseRequest(raw []byte, lim Limits) (request, error) {
	r := request{bell: -1, args: json.RawMessage("{}"), tree: map[string]any{}}
	p := newStrictJSON(raw, lim.Depth, lim.Nodes, true)
	if p.next() != '{' {
		if _, err := p.document(); err != nil {
			return r, err
		}
		return r, errors.New("must be an object")
	}
	hasTool := false
	err := p.object(func(key string) error {
		p.space()
		start := p.i
		v, err := p.value()
		if err != nil {
			return err
		}
		switch key {
		case "v":
			if v != json.Number("1") {
				return errors.New(`field "v" must be 1`)
			}
		case "tool":
			r.tool, hasTool = v.(string)
			if !hasTool {
				return errors.New(`field "tool" must be a text`)
			}
		case "args":
			if _, ok := v.(map[string]any); !ok {
				return errors.New(`field "args" must be an object`)
			}
			r.args, r.tree = json.RawMessage(raw[start:p.i:p.i]), v
		case "timeout_ms":
			n, ok := wholeNumber(v, maxTimeoutMS)
			if !ok || n == 0 {
				return fmt.Errorf(`field "timeout_ms" must be a whole number from 1 to %d`, maxTimeoutMS)
			}
			r.timeout = time.Duration(n) * time.Millisecond
		case "bell":
			n, ok := wholeNumber(v, maxTimeoutMS)
			if !ok {
				return errors.New(`field "bell" must be a whole number`)
			}
			if n < maxSlots {
				r.bell = n
			}
		default:
			return errors.New("unknown field " + quote(key))
		}
		return nil
	})
	if err == nil {
		err = p.end()
	}
	if err == nil && !hasTool {
		err = errors.New(`field "tool" is missing`)
	}
	r.lone = p.lone
	return r, err
}

// wholeNumber returns a number that is written as digits only, up to most.
func wholeNumber(v any, most int) (int, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(string(text))
	return n, err == nil && n >= 0 && n <= most
}
