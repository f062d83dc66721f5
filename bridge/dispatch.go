package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// call is one claimed request on its way to an answer.
type call struct {
	entry    *entry
	name     string // the tool's name as the program wrote it
	tool     int    // its index, -1 while unknown
	args     json.RawMessage
	size     int64 // of the request, which args keeps in memory
	lone     bool
	bell     int
	silent   bool      // must not touch the reply
	seen     time.Time // when it was claimed (monotonic)
	started  time.Time
	deadline time.Time // the request's own, zero without
	timer    *time.Timer
	settled  chan struct{}
	over     atomic.Bool  // somebody answers or has answered
	ran      atomic.Bool  // the handler was called
	decision atomic.Value // a string: what the approval gate said
}

// admit checks the tool, the arguments and the budget, and queues the call. What
// it returns is the refusal.
func (s *Server) admit(c *call, tree any) *ToolError {
	if s.ctx.Err() != nil {
		return refuse(Closed, "the run is over")
	}
	i, ok := s.cfg.Tools.index[c.name]
	if !ok {
		te := refuse(UnknownTool, "there is no tool "+quote(c.name))
		te.Details, _ = json.Marshal(map[string]any{"known": s.cfg.Tools.names()}) // plain names
		return te
	}
	c.tool = i
	if f := s.cfg.Tools.schemas[i].check(tree, s.ctx.Done()); f != nil {
		te := refuse(InvalidArgs, clip(f.Error(), maxErrorText))
		te.Details, _ = json.Marshal(map[string]string{"path": clip(f.at.String(), maxErrorText)}) // plain text
		return te
	}
	if s.log.broken() {
		return errUnrecorded()
	}
	if s.full() {
		return refuse(Overloaded, "too many replies wait to be fetched")
	}
	t := &s.cfg.Tools.tools[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.args+c.size > maxQueuedArgs:
		return refuse(Overloaded, "too many arguments wait")
	case s.reserved >= s.cfg.MaxCalls:
		return refuse(BudgetExceeded, "the run's tool calls are used up")
	case t.MaxCalls > 0 && s.perTool[i].reserved >= t.MaxCalls:
		return refuse(BudgetExceeded, "the calls of this tool are used up")
	case len(s.waiting) >= s.lim.Queue:
		return refuse(Overloaded, "too many requests wait")
	}
	s.reserved++
	s.args += c.size
	s.perTool[i].reserved++
	c.settled = make(chan struct{})
	s.settled.Add(1)
	if !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { s.expireWaiting(c) })
	}
	s.waiting = append(s.waiting, c)
	s.schedule()
	return nil
}

// schedule starts waiting calls, oldest first, while slots are free. A call
// whose tool is busy lets the others pass. The lock is held.
func (s *Server) schedule() {
	for i := 0; i < len(s.waiting) && s.running < s.cfg.Concurrency; {
		c := s.waiting[i]
		most := s.cfg.Tools.tools[c.tool].Concurrency
		if most == 0 {
			most = s.cfg.Concurrency
		}
		if s.perTool[c.tool].running >= most {
			i++
			continue
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.running++
		s.perTool[c.tool].running++
		go s.run(c)
	}
}

// expireWaiting answers a call whose request deadline passed in the queue.
func (s *Server) expireWaiting(c *call) {
	s.mu.Lock()
	i := slices.Index(s.waiting, c)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.unreserve(c)
	}
	s.mu.Unlock()
	if i >= 0 {
		s.settle(c, nil, s.contextError(context.DeadlineExceeded), "")
		s.countRefusal()
	}
}

// failWaiting answers all queued calls at the end of the run.
func (s *Server) failWaiting() {
	s.mu.Lock()
	calls := s.waiting
	s.waiting = nil
	for _, c := range calls {
		s.unreserve(c)
	}
	s.mu.Unlock()
	for _, c := range calls {
		te := refuse(Closed, "the run is over")
		if s.ctx.Err() == nil {
			te = errUnrecorded()
		}
		s.settle(c, nil, te, "")
	}
}

// errUnrecorded refuses a call that could not be recorded.
func errUnrecorded() *ToolError { return refuse(Internal, "the host cannot record calls") }

// unreserve gives the budget of a call back that never ran. The lock is held.
func (s *Server) unreserve(c *call) {
	s.reserved--
	s.perTool[c.tool].reserved--
}

// run is one call's goroutine.
func (s *Server) run(c *call) {
	c.started = time.Now()
	t := &s.cfg.Tools.tools[c.tool]
	limit := t.Timeout
	if limit == 0 {
		limit = s.cfg.ToolTimeout
	}
	if !c.deadline.IsZero() {
		c.timer.Stop()
		limit = min(limit, time.Until(c.deadline))
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	disarm := context.AfterFunc(ctx, func() { s.abandon(c, ctx) })
	defer disarm()

	in := Call{Sandbox: s.cfg.SandboxID, ID: c.entry.id, Tool: t.Name, Args: c.args, loneSurrogate: c.lone}
	raw, err := s.work(ctx, c, t, in)
	s.mu.Lock()
	s.perTool[c.tool].running--
	s.mu.Unlock()
	late := c.over.Swap(true)
	if !late {
		te, detail := s.outcome(ctx, raw, err)
		held := int64(len(raw))
		s.mu.Lock()
		if s.results+held > maxResults {
			held, raw = 0, nil
			te = refuse(Overloaded, "too many large results at once")
		}
		s.results += held
		s.mu.Unlock()
		s.finish(c, raw, te, detail)
		s.mu.Lock()
		s.results -= held
		s.mu.Unlock()
		return
	}
	s.mu.Lock()
	s.stats.Late++
	s.stats.Stuck--
	s.schedule()
	s.mu.Unlock()
	if !s.closing.Load() {
		s.audit(s.record(c, Record{Event: "late-result", ResultSize: len(raw)}))
	}
}

// work asks the approval gate and calls the handler; a panic in either becomes
// an error.
func (s *Server) work(ctx context.Context, c *call, t *Tool, in Call) (raw json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			raw, err = nil, &panicError{value: p}
		}
	}()
	if s.cfg.Approve != nil {
		c.decision.Store("failed")
		d, err := s.cfg.Approve(ctx, in)
		if err != nil {
			return nil, &gateError{err}
		}
		if !d.Allow {
			c.decision.Store("denied")
			if d.Reason == "" {
				d.Reason = "the call was not approved"
			}
			return nil, refuse(Denied, d.Reason)
		}
		c.decision.Store("allowed")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.log.broken() {
		return nil, errUnrecorded()
	}
	c.ran.Store(true)
	return t.Handler.Call(ctx, in)
}

// abandon answers a call whose handler does not return after its context ended.
// The handler keeps its slot of the tool's own concurrency, so that a stuck tool
// can pile up neither goroutines nor memory; the sandbox's slot is free again.
func (s *Server) abandon(c *call, ctx context.Context) {
	select {
	case <-c.settled:
		return
	case <-time.After(cancelGrace):
	}
	if c.over.Swap(true) {
		return
	}
	s.mu.Lock()
	s.stats.Stuck++
	s.mu.Unlock()
	s.finish(c, nil, s.contextError(ctx.Err()), "the handler ignored its context")
}

// finish frees the slot and answers. Only a call whose handler ran counts
// against the budget.
func (s *Server) finish(c *call, raw json.RawMessage, te *ToolError, detail string) {
	s.mu.Lock()
	s.running--
	if c.ran.Load() {
		s.stats.Dispatched++
	} else {
		s.unreserve(c)
	}
	s.mu.Unlock()
	s.settle(c, raw, te, detail)
	s.mu.Lock()
	s.schedule()
	s.mu.Unlock()
	if !c.ran.Load() {
		s.countRefusal() // else requests that never run could go on for ever
	}
}

// settle answers a queued or running call, once.
func (s *Server) settle(c *call, raw json.RawMessage, te *ToolError, detail string) {
	c.over.Store(true)
	s.answer(c, raw, te, detail)
	s.mu.Lock()
	s.args -= c.size
	s.mu.Unlock()
	close(c.settled)
	s.settled.Done()
}

// outcome turns what a handler returned into the answer.
func (s *Server) outcome(ctx context.Context, raw json.RawMessage, err error) (*ToolError, string) {
	var pe *panicError
	var ge *gateError
	switch {
	case errors.As(err, &pe):
		return refuse(Internal, "the tool broke down"), err.Error()
	case errors.As(err, &ge):
		return refuse(Internal, "the approval gate failed"), err.Error()
	case err != nil && ctx.Err() != nil:
		if te := (*ToolError)(nil); !errors.As(err, &te) {
			return s.contextError(ctx.Err()), err.Error()
		}
	}
	if err != nil {
		return asToolError(err)
	}
	if len(raw) > s.lim.Result {
		return refuse(TooLarge, "the result is larger than the limit"), ""
	}
	if !validResult(raw) {
		return refuse(Internal, "the tool's result is not JSON"), "the handler returned no valid JSON"
	}
	return nil, ""
}

// contextError says why a context ended.
func (s *Server) contextError(err error) *ToolError {
	if s.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return refuse(Closed, "the run is over")
	}
	return refuse(Timeout, "the tool did not answer in time")
}
