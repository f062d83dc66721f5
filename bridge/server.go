package bridge

import (
	"container/list"
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

// Decision is what the approval gate says about a call.
type Decision struct {
	// Allow lets the call run.
	Allow bool
	// Reason reaches the program when the call is denied; "" gives a standard text.
	Reason string
}

// Config describes one sandbox's bridge.
type Config struct {
	// SandboxID names the sandbox in calls and audit records.
	SandboxID string
	// Req is the request directory. Its content is hostile; the server never
	// changes it. It stays the caller's to close, after Server.Close.
	Req *os.File
	// Resp is the reply directory, which only the host can write to. It stays the
	// caller's to close, after Server.Close.
	Resp *os.File
	// UID is the host uid that every request file must have.
	UID uint32
	// Tools are the tools that may be called; nil means none.
	Tools *Set
	// MaxCalls is the run's budget of dispatched calls; 0 means that no tool may be
	// called. See DefaultMaxCalls.
	MaxCalls int
	// Concurrency is the number of calls that run at once; 0 means DefaultConcurrency.
	Concurrency int
	// ToolTimeout bounds the calls of tools without a timeout of their own; 0
	// means DefaultToolTimeout.
	ToolTimeout time.Duration
	// Limits are the sizes; zero fields mean the defaults.
	Limits Limits
	// Approve is asked before each call runs, after its arguments were checked;
	// nil approves all. It runs in the call's own slot; its context ends with the
	// run or the request. An error answers `internal` and the call does not run.
	Approve func(ctx context.Context, c Call) (Decision, error)
	// Audit gets one record per call, and one for events that a host should know
	// of; nil discards. It is called from one goroutine, in order, and the bridge
	// never waits for it. Its error, its panic, or more than 2,048 records that wait
	// for it end the service: from then on every call is answered `internal` and no
	// tool runs, because what cannot be recorded must not happen.
	Audit func(Record) error
	// OnAuditFailure is called once, on a goroutine of its own, when that happened;
	// the run should be ended.
	OnAuditFailure func(error)
	// OnFlood is called once, on a goroutine of its own, when the program passed the
	// flood limit. The server serves nothing from then on; the run must be ended
	// with the reason bridge-flood.
	OnFlood func()
}

// Server serves one sandbox.
type Server struct {
	cfg    Config
	lim    Limits
	w      *Watcher
	reqFD  int
	listFD int
	respFD int
	wd     int32 // -1: not watched; the Watcher's lock is held
	ctx    context.Context
	cancel context.CancelFunc

	evMu    sync.Mutex
	events  []event
	spare   []event // the buffer that is not filled at the moment
	sweepIt bool
	dropped int
	window  time.Time // when the present count of events began
	inside  int       // events since then

	wake         chan struct{}
	stop         chan struct{}
	loop         sync.WaitGroup // the intake goroutine
	settled      sync.WaitGroup // calls without an answer
	resultEvents int            // events about the result file; this and the next two are the intake's alone
	noiseWindow  time.Time      // when the present count of noise began
	noiseInside  int            // noise since then
	muted        atomic.Int64   // when the watch was taken off for its rate (Unix nanoseconds), 0: it is on
	polling      atomic.Bool
	closing      atomic.Bool
	once         sync.Once

	mu       sync.Mutex
	entries  map[string]*entry
	replies  *list.List // of *entry, oldest first: published and not fetched
	bytes    int64      // of those replies and of those being written
	waiting  []*call
	running  int
	perTool  []toolState
	args     int64 // bytes of requests without an answer
	results  int64 // bytes of results that are not published
	reserved int   // budget in use: waiting, running and done
	stats    Stats
	flooded  bool
	sweepGen int
	temp     int

	log auditLog

	bellMu sync.RWMutex
	bell   int
	bells  []int
}

// event is what a watch reported about a name.
type event struct {
	name string
	gone bool
}

// toolState counts one tool's calls in this run.
type toolState struct{ running, reserved int }

// entryState is where a request id stands. An id never becomes new again.
type entryState uint8

const (
	inFlight entryState = iota
	publishing
	answered
	gone    // acknowledged: the request file went away after the answer
	evicted // the reply made room for others, or none could be written
)

// entry is an id that was seen.
type entry struct {
	id    string
	state entryState
	moved bool // a moved-in event of the first claim came
	lost  bool // the request went away while the reply was being published
	// removed is set with the first event of its removal.
	removed bool
	spill   bool
	gen     int // the last sweep that saw the request file, or its answer's
	size    int64
	elem    *list.Element
	done    time.Time // when the reply was published
}

// Serve starts to serve a sandbox whose directories exist already; the program
// may have started. The context carries the run's deadline: when it ends, running
// tools are cancelled and further requests are answered `closed`.
//
// Errors: errdef.Invalid for a bad Config, errdef.Exists for a directory that is
// served already, errdef.Setup when the directories do not work.
func (w *Watcher) Serve(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, lim: cfg.Limits, w: w,
		reqFD: int(cfg.Req.Fd()), respFD: int(cfg.Resp.Fd()), listFD: -1, bell: -1, wd: -1,
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
		entries: map[string]*entry{}, replies: list.New(),
		perTool: make([]toolState, len(cfg.Tools.tools)),
		stats:   Stats{Calls: map[string]map[Code]int{}},
		sweepIt: true,
	}
	setup := func(err error) (*Server, error) {
		s.closeFDs()
		return nil, &errdef.Error{Code: errdef.Setup, Op: "bridge", Msg: "the bridge directories do not work", Err: err}
	}
	var err error
	if s.listFD, err = sys.DirReopen(s.reqFD); err != nil {
		return setup(err)
	}
	if s.bell, err = sys.DirFifo(s.respFD, bellName, bellMode); err != nil {
		return setup(err)
	}
	if err := s.addBells(firstSlots); err != nil {
		return setup(err)
	}
	watched, err := w.watch(s)
	if err != nil {
		s.closeFDs()
		return nil, err
	}
	if !watched {
		s.polling.Store(true)
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.log.wake, s.log.done = make(chan struct{}, 1), make(chan struct{})
	if cfg.Audit != nil {
		go s.drain()
	}
	stopAfter := context.AfterFunc(s.ctx, s.failWaiting)
	s.loop.Go(func() {
		defer stopAfter()
		s.serve()
	})
	return s, nil
}

// complete checks the configuration and fills in the defaults.
func (c *Config) complete() error {
	bad := func(field, msg string) error { return errdef.Field(field, msg, "") }
	if c.Req == nil || c.Resp == nil {
		return bad("bridge directories", "are missing")
	}
	if c.Tools == nil {
		c.Tools = &Set{}
	}
	if c.MaxCalls < 0 {
		return bad("max-tool-calls", "must not be negative")
	}
	if c.Concurrency < 0 || c.ToolTimeout < 0 {
		return bad("tool concurrency and timeout", "must not be negative")
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.ToolTimeout == 0 {
		c.ToolTimeout = DefaultToolTimeout
	}
	c.Limits = c.Limits.withDefaults()
	if !c.Limits.valid() {
		return bad("bridge limits", "must not be negative")
	}
	if int64(c.Limits.Result) > c.Limits.ReplyQuota/2 {
		// One reply must never push itself out.
		return bad("bridge limits", "the largest result must be at most half of the reply quota")
	}
	return nil
}

// notify queues an event. It never blocks: past the bound a sweep takes over. It
// returns false when there are too many for their time.
func (s *Server) notify(e event) bool {
	now := time.Now()
	s.evMu.Lock()
	if now.Sub(s.window) > eventWindow {
		s.window, s.inside = now, 0
	}
	s.inside++
	calm := s.inside < maxEvents
	if len(s.events) < pendingNames {
		s.events = append(s.events, e)
	} else {
		s.dropped++
		s.sweepIt = true
	}
	s.evMu.Unlock()
	s.poke()
	return calm
}

// rewatch puts a watch on again that was taken off, once it has rested.
func (s *Server) rewatch() {
	off := s.muted.Load()
	if off == 0 || time.Since(time.Unix(0, off)) < eventRest {
		return
	}
	s.muted.Store(0)
	if ok, err := s.w.watch(s); err != nil || !ok {
		s.pollFromNow()
	}
}

func (s *Server) wantSweep() {
	s.evMu.Lock()
	s.sweepIt = true
	s.evMu.Unlock()
	s.poke()
}

func (s *Server) pollFromNow() {
	if !s.polling.Swap(true) {
		s.wantSweep()
	}
}

func (s *Server) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve is the intake: it alone touches the request directory. A program can
// make it block there (a directory lock held by tricks), and then nothing but
// this sandbox waits.
func (s *Server) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := time.Time{}
	idle := pollMin
	said := false
	for {
		if !said && s.polling.Load() {
			said = true
			s.audit(Record{Event: "polling", Detail: "inotify cannot be had, requests are found by polling"})
		}
		tick := false
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-timer.C:
			tick = true
		}
		s.evMu.Lock()
		events, want, dropped := s.events, s.sweepIt, s.dropped
		s.events, s.dropped = s.spare[:0], 0
		s.spare = nil
		s.evMu.Unlock()
		s.addNoise(dropped)
		for _, e := range events {
			s.event(e)
		}
		clear(events)
		s.evMu.Lock()
		s.spare = events
		s.evMu.Unlock()
		if !tick && !want {
			continue
		}
		if since := time.Since(last); !tick && since < sweepGap {
			timer.Reset(sweepGap - since)
			continue
		}
		s.evMu.Lock()
		s.sweepIt = false
		s.evMu.Unlock()
		s.rewatch() // before the sweep, which sees what came earlier
		found := s.sweep()
		last = time.Now()
		timer.Reset(s.nextSweep(found, &idle))
	}
}

// nextSweep returns when to sweep again.
func (s *Server) nextSweep(found bool, idle *time.Duration) time.Duration {
	if !s.polling.Load() {
		return sweepEvery
	}
	if *idle *= 2; found {
		*idle = pollMin
	}
	*idle = min(*idle, pollMax)
	return *idle
}

// Close ends the service: running tools are cancelled and given 50 ms, every
// goroutine is joined, results that come later are dropped and audited. The
// sandbox should be dead already, because a living one can make the host's
// reads in its directory block. Close may be called more than once, and from
// any goroutine but a tool's.
//
// A handler that ignores its context cannot be stopped; it is left behind and
// counted in Stats.Stuck. An audit sink that lags behind gets 2 s to catch up.
func (s *Server) Close() Stats {
	s.once.Do(func() {
		s.closing.Store(true)
		s.cancel()
		s.w.unwatch(s)
		close(s.stop)
		s.loop.Wait()
		s.w.unwatch(s) // the loop may just have put it on again
		s.failWaiting()
		s.settled.Wait()
		s.closeLog()
		s.bellMu.Lock()
		s.closeFDs()
		s.bellMu.Unlock()
	})
	return s.Stats()
}

// closeFDs closes what the server opened.
func (s *Server) closeFDs() {
	for _, fd := range append(s.bells, s.bell, s.listFD) {
		if fd >= 0 {
			sys.DirClose(fd)
		}
	}
	s.bells, s.bell, s.listFD = nil, -1, -1
}

// Result returns the run's result, which the program left in result.json
// (set_result of the stubs); nil if it left none. The same rules hold as for a
// request, up to 8 MiB. Call it after the program has ended and before the request
// directory is closed; before or after Close.
func (s *Server) Result() (json.RawMessage, error) {
	raw, refusal := readUntrusted(int(s.cfg.Req.Fd()), resultName, s.cfg.UID, maxResultFile)
	if refusal != nil {
		if refusal.missing {
			return nil, nil
		}
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "bridge", Path: "result", Msg: refusal.Message}
	}
	if err := checkJSON(raw, s.lim.Depth, maxResultNodes); err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "bridge", Path: "result", Msg: "not valid JSON", Err: err}
	}
	return raw, nil
}
