package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"sync"
	"time"
)

// Record is one line of the audit log: a call with its outcome, or an event
// (Event is set) that a host should know of.
type Record struct {
	// Time is when the record was made.
	Time time.Time `json:"time"`
	// Event is "" for a call; "late-result", "polling", "flood", "doorbells" or
	// "evicted" (a reply that nobody fetched became a short one).
	Event string `json:"event,omitempty"`
	// Sandbox is the sandbox's id.
	Sandbox string `json:"sandbox"`
	// Call is the request's id.
	Call string `json:"call,omitempty"`
	// Tool is the tool's name; for one that does not exist, what the program asked
	// for, quoted and clipped.
	Tool string `json:"tool,omitempty"`
	// ArgsSHA256 is the digest of the arguments' text.
	ArgsSHA256 string `json:"args_sha256,omitempty"`
	// ArgsSize is the size of the arguments' text in bytes.
	ArgsSize int `json:"args_size"`
	// ResultSize is the size of the result in bytes, 0 for a failure.
	ResultSize int `json:"result_size"`
	// Code is the outcome.
	Code Code `json:"code,omitempty"`
	// Decision is the approval gate's: "allowed", "denied", "failed", "" without one.
	Decision string `json:"decision,omitempty"`
	// QueueUS is the time from the claim to the start, in microseconds.
	QueueUS int64 `json:"queue_us"`
	// RunUS is the time from the start to the outcome, in microseconds.
	RunUS int64 `json:"run_us"`
	// Detail is for the host alone: what really went wrong.
	Detail string `json:"detail,omitempty"`
}

// Stats counts what a server did.
type Stats struct {
	// Calls counts answered requests by tool and outcome. Requests for no known
	// tool count under "".
	Calls map[string]map[Code]int `json:"calls"`
	// Dispatched counts the calls that ran, failures included.
	Dispatched int `json:"dispatched"`
	// Refused counts the requests that never ran.
	Refused int `json:"refused"`
	// Noise counts events about names that are no requests.
	Noise int `json:"noise"`
	// Evicted counts the replies that went unfetched and were cut to make room.
	Evicted int `json:"evicted"`
	// Late counts the results that came after their call was answered.
	Late int `json:"late"`
	// Stuck counts the handlers that ignored their context and still run.
	Stuck int `json:"stuck"`
	// Unrecorded counts the records that the audit sink did not take.
	Unrecorded int `json:"unrecorded"`
	// Polling tells that inotify could not be had.
	Polling bool `json:"polling"`
	// Flooded tells that the flood limit was passed.
	Flooded bool `json:"flooded"`
}

// Stats returns the counters so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Flooded = s.flooded
	out.Polling = out.Polling || s.polling.Load()
	out.Calls = make(map[string]map[Code]int, len(s.stats.Calls))
	for tool, codes := range s.stats.Calls {
		out.Calls[tool] = maps.Clone(codes)
	}
	return out
}

// count adds an answered request to the counters.
func (s *Server) count(c *call, code Code) {
	name := ""
	if c.tool >= 0 {
		name = s.cfg.Tools.tools[c.tool].Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats.Calls[name] == nil {
		s.stats.Calls[name] = map[Code]int{}
	}
	s.stats.Calls[name][code]++
}

// countRefusal counts a request that never ran against the flood limit.
func (s *Server) countRefusal() {
	s.mu.Lock()
	s.stats.Refused++
	flood := s.stats.Refused >= s.lim.Flood
	s.mu.Unlock()
	if flood {
		s.flood()
	}
}

// flood ends the service of a program that only makes trouble.
func (s *Server) flood() {
	s.mu.Lock()
	again := s.flooded
	s.flooded = true
	s.mu.Unlock()
	if again {
		return
	}
	s.audit(Record{Event: "flood", Detail: "too many refused requests"})
	if s.cfg.OnFlood != nil {
		go s.cfg.OnFlood()
	}
}

// record completes a record about a call.
func (s *Server) record(c *call, r Record) Record {
	r.Call = c.entry.id
	switch {
	case c.tool >= 0:
		r.Tool = c.name
	case c.name != "":
		r.Tool = quote(c.name)
	}
	r.Decision, _ = c.decision.Load().(string)
	if c.args != nil && s.cfg.Audit != nil {
		sum := sha256.Sum256(c.args)
		r.ArgsSHA256, r.ArgsSize = hex.EncodeToString(sum[:]), len(c.args)
	}
	now := time.Now()
	if c.started.IsZero() {
		r.QueueUS = now.Sub(c.seen).Microseconds()
	} else {
		r.QueueUS = c.started.Sub(c.seen).Microseconds()
		r.RunUS = now.Sub(c.started).Microseconds()
	}
	return r
}

// audit queues a record for the host and never waits: the intake and the replies
// do not depend on where the host writes to.
func (s *Server) audit(r Record) {
	if s.cfg.Audit == nil {
		return
	}
	r.Time = time.Now()
	r.Sandbox = s.cfg.SandboxID
	r.Detail = clip(r.Detail, maxDetail)
	l := &s.log
	l.mu.Lock()
	lost := l.failed || l.closed || len(l.queue) >= maxRecords
	full := lost && !l.failed && !l.closed
	if !lost {
		l.queue = append(l.queue, r)
	}
	l.mu.Unlock()
	if lost {
		s.mu.Lock()
		s.stats.Unrecorded++
		s.mu.Unlock()
	}
	if full {
		s.auditFailed(errors.New("the audit sink is too slow"))
	}
	l.poke()
}

// auditLog is the queue between the service and the host's sink.
type auditLog struct {
	mu     sync.Mutex
	queue  []Record
	busy   bool // the sink has a record
	failed bool // no record is kept any more, no tool runs any more
	closed bool
	wake   chan struct{}
	done   chan struct{} // closed when the draining goroutine is over
}

func (l *auditLog) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *auditLog) broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// drained reports whether the sink has all records.
func (l *auditLog) drained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) == 0 && !l.busy
}

// drain hands the records on, one at a time and in order.
func (s *Server) drain() {
	l := &s.log
	defer close(l.done)
	for {
		l.mu.Lock()
		var r Record
		l.busy = len(l.queue) > 0
		if l.busy {
			r, l.queue = l.queue[0], l.queue[1:]
		}
		busy, closed, failed := l.busy, l.closed, l.failed
		l.mu.Unlock()
		switch {
		case busy && !failed:
			if err := s.sink(r); err != nil {
				s.auditFailed(err)
			}
		case busy: // lost
		case closed:
			return
		default:
			<-l.wake
		}
	}
}

// sink calls the host. Its panic is a failure like any other.
func (s *Server) sink(r Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p}
		}
	}()
	return s.cfg.Audit(r)
}

// auditFailed stops the service of tools: what cannot be recorded does not run.
func (s *Server) auditFailed(err error) {
	s.log.mu.Lock()
	again := s.log.failed
	s.log.failed = true
	s.log.mu.Unlock()
	if again {
		return
	}
	go s.failWaiting()
	if s.cfg.OnAuditFailure != nil {
		go s.cfg.OnAuditFailure(err)
	}
}

// closeLog lets the sink take what is left, for at most auditGrace.
func (s *Server) closeLog() {
	s.log.mu.Lock()
	s.log.closed = true
	s.log.mu.Unlock()
	if s.cfg.Audit == nil {
		return
	}
	s.log.poke()
	select {
	case <-s.log.done:
	case <-time.After(auditGrace):
		s.auditFailed(errors.New("the audit sink is too slow"))
	}
}
