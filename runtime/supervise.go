package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/cgroups"
	"github.com/sbxrun/sbxrun/netns"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

const (
	// watchInterval is how often the refused forks are counted: often enough
	// that a fork bomb ends soon, rare enough to cost nothing.
	watchInterval = 100 * time.Millisecond
	// pidsFlood is the number of refused forks that makes a bomb of a program
	// that merely met its limit: a shell retries a fork 8 times, a build with
	// too many jobs a few dozen times.
	pidsFlood = 256
	// maxResultBytes bounds a "RESULT: ..." line's value.
	maxResultBytes = tailBytes
)

// exitInfo is how the program's end was seen.
type exitInfo struct {
	status syscall.WaitStatus
	ok     bool
	err    error
	at     time.Time
}

// supervise watches one running sandbox to its end, then cleans up and
// completes the record.
func (s *Sandbox) supervise(ctx context.Context) {
	for _, st := range s.streams {
		go st.run()
	}
	if s.stdin != nil {
		go s.feed()
	}
	exited := make(chan exitInfo, 1)
	go func() {
		status, ok, err := s.proc.Wait(func() { _ = s.group.Unthrottle() }) // without it the death is slower, and ends all the same
		exited <- exitInfo{status, ok, err, time.Now()}
	}()
	exit, why := s.watch(ctx, exited)
	s.finish(exit, why)
}

// watch waits for the end and enforces what the kernel does not: time, output,
// refused forks, the caller's own wish. It returns why it had to stop the
// sandbox, "" where the sandbox ended by itself.
func (s *Sandbox) watch(ctx context.Context, exited <-chan exitInfo) (exitInfo, Reason) {
	deadline := time.NewTimer(time.Until(s.started.Add(s.policy.Limits.Timeout)))
	defer deadline.Stop()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		var why Reason
		select {
		case exit := <-exited:
			return exit, ""
		case <-deadline.C:
			why = ReasonTimeout
		case <-ctx.Done():
			why = ReasonKilled
		case <-s.stop:
			why = s.stopWhy
		case <-ticker.C:
			if n, err := s.group.PidsDenied(); err == nil && n >= pidsFlood {
				why = ReasonPidsLimit
			}
		}
		if why != "" {
			// Dying takes CPU time too, and must not wait for the next period's.
			unthrottleErr := s.group.Unthrottle()
			s.proc.Kill()
			exit := <-exited
			if exit.err == nil {
				exit.err = unthrottleErr
			}
			return exit, why
		}
	}
}

// finish takes everything down in an order that loses nothing: the processes
// are dead, then the last output, the counters, the files, the directories. What
// has nothing to do with each other happens at the same time.
func (s *Sandbox) finish(exit exitInfo, why Reason) {
	r := &Result{ID: s.id, Started: true}
	r.Usage.Wall = exit.at.Sub(s.started)
	limits := make(chan groupEnd, 1)
	go func() { limits <- s.endGroup() }()
	if s.host.parent == nil { // OneShot: nobody will need the launcher again
		go s.host.engine.Close()
	}
	for _, st := range s.streams {
		st.finish()
	}
	if s.server != nil {
		r.setToolCalls(s.server.Close())
		v, err := s.server.Result()
		r.Value = v
		r.fail(err)
		s.cancel()
	}
	if r.Value == nil {
		r.Value = resultLine(s.streams[0].lastLine())
	}
	r.Output.StdoutBytes, r.Output.Truncated = s.streams[0].usage()
	stderrBytes, truncated := s.streams[1].usage()
	r.Output.StderrBytes, r.Output.Truncated = stderrBytes, r.Output.Truncated || truncated
	denials, err := netns.Denials(s.proc.Export(plan.SlotSNMP), s.proc.Export(plan.SlotSNMP6))
	r.NetworkDenials = denials
	r.fail(err)
	s.fetch(r)
	s.streams[0].close()
	s.streams[1].close()
	s.closeStdin()
	s.proc.Close()
	end := <-limits
	r.setUsage(end.stats)
	r.setOutcome(exit, why)
	r.fail(exit.err)
	r.fail(end.err)
	s.freeIDs()
	r.fail(s.events.end(r))
	s.result = r
	s.host.unregister(s)
	close(s.done)
}

// groupEnd is the last of a sandbox's cgroup.
type groupEnd struct {
	stats cgroups.Stats
	err   error
}

// endGroup reads the counters and removes the directories.
func (s *Sandbox) endGroup() (e groupEnd) {
	var err error
	e.stats, e.err = s.group.Stats()
	if err = s.group.Remove(); e.err == nil {
		e.err = err
	}
	return e
}

// resultLine returns the value of a last output line "RESULT: JSON".
func resultLine(line []byte) json.RawMessage {
	v, ok := bytes.CutPrefix(line, []byte("RESULT:"))
	if !ok || len(v) > maxResultBytes || !json.Valid(v) {
		return nil
	}
	return json.RawMessage(bytes.TrimSpace(bytes.Clone(v)))
}
