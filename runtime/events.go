package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/errdef"
)

// The types of events.
const (
	EventStart    = "start"
	EventToolCall = "tool_call"
	EventDenial   = "denial"
	EventEnd      = "end"
)

// Event is one audit record; which fields are set depends on Type.
type Event struct {
	Time    string            `json:"time"` // RFC 3339 with nanoseconds, UTC
	Type    string            `json:"type"`
	Sandbox string            `json:"sandbox"`
	Labels  map[string]string `json:"labels,omitempty"`
	// start: the policy in effect and the SHA-256 of its JSON form.
	Policy       *specs.Spec `json:"policy,omitempty"`
	PolicySHA256 string      `json:"policy_sha256,omitempty"`
	// tool_call
	Call *bridge.Record `json:"call,omitempty"`
	// denial: what was denied ("network", "memory", "pids") and how often.
	Denial string `json:"denial,omitempty"`
	Count  uint64 `json:"count,omitempty"`
	// end
	Result *Result `json:"result,omitempty"`
}

// eventLog hands events to the caller's sink, one at a time and in order.
type eventLog struct {
	sink    func(Event) error
	sandbox string
	labels  map[string]string

	mu     sync.Mutex
	failed error // of the sink; reported at the end
}

func (l *eventLog) emit(e Event) error {
	if l.sink == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	e.Time = time.Now().UTC().Format(time.RFC3339Nano)
	e.Sandbox, e.Labels = l.sandbox, l.labels
	if err := l.sink(e); err != nil {
		l.failed = &errdef.Error{Code: errdef.Setup, Op: "events", Path: "events", Msg: "the audit record cannot be written", Err: err}
	}
	return l.failed
}

func (l *eventLog) start(s *specs.Spec) error {
	if l.sink == nil {
		return nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return &errdef.Error{Code: errdef.Internal, Op: "events", Err: err}
	}
	sum := sha256.Sum256(data)
	return l.emit(Event{Type: EventStart, Policy: s, PolicySHA256: hex.EncodeToString(sum[:])})
}

// call is the bridge's audit function. Its error makes the bridge refuse all
// further calls; it shows at the end.
func (l *eventLog) call(r bridge.Record) error { return l.emit(Event{Type: EventToolCall, Call: &r}) }

// end reports the denials and the result.
func (l *eventLog) end(r *Result) error {
	for _, d := range []struct {
		what string
		n    uint64
	}{{"network", r.NetworkDenials}, {"memory", r.OOMKills}, {"pids", r.PidsDenied}} {
		if d.n > 0 {
			if err := l.emit(Event{Type: EventDenial, Denial: d.what, Count: d.n}); err != nil {
				return err
			}
		}
	}
	return l.emit(Event{Type: EventEnd, Result: r})
}
