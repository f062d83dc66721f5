package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A sink that blocks holds up neither calls nor their replies; past the bound,
// and with a sink that fails, no tool runs any more and the host is told.
func TestAuditSinkNeverHoldsUpCalls(t *testing.T) {
	gate := make(chan struct{})
	failures := make(chan error, 9)
	r := newRig(t, Config{MaxCalls: 1 << 20, OnAuditFailure: func(err error) { failures <- err },
		Audit: func(Record) error { <-gate; return nil }}, echoTool())
	for i := range 200 {
		r.works(seq(i)) // nobody takes a record
	}
	for i := range maxRecords {
		r.srv.audit(Record{Event: "filler", Detail: strings.Repeat("x", i%100)})
	}
	if err := <-failures; !strings.Contains(err.Error(), "slow") {
		t.Errorf("got %v", err)
	}
	ran := r.srv.Stats().Dispatched
	if got := r.ask("after", `{"tool":"echo","args":{"v":1}}`); got.Code != Internal {
		t.Errorf("after the failure: %+v", got)
	}
	begin := time.Now()
	st := r.srv.Close()
	if took := time.Since(begin); took > auditGrace+time.Second {
		t.Errorf("Close took %s", took)
	}
	if st.Dispatched != ran || st.Unrecorded == 0 || len(failures) != 0 {
		t.Errorf("stats %+v, %d more failures", st, len(failures))
	}
	close(gate)
}

func TestAuditFailureEndsTheCalls(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("disk full") },
		"panic": func() error { panic("disk full") },
	} {
		var records atomic.Int32
		failures := make(chan error, 9)
		started := make(chan struct{}, 9)
		hold := handlerTool("hold", func(ctx context.Context, _ Call) (json.RawMessage, error) {
			started <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		hold.Concurrency = 1
		r := newRig(t, Config{MaxCalls: 100, OnAuditFailure: func(err error) { failures <- err }, Audit: func(Record) error {
			if records.Add(1) == 3 {
				return fail()
			}
			return nil
		}}, echoTool(), hold)
		r.put("running", `{"tool":"hold","args":{}}`)
		<-started
		r.put("waiting", `{"tool":"hold","args":{}}`)
		for i := range 3 {
			r.works(seq(i))
		}
		if err := <-failures; !strings.Contains(err.Error(), "disk full") {
			t.Errorf("%s: %v", name, err)
		}
		if got := r.waitReply("waiting", time.Second); got.Code != Internal {
			t.Errorf("%s: waiting: %+v", name, got)
		}
		for i := range 5 {
			if got := r.ask("x"+seq(i), `{"tool":"echo","args":{"v":1}}`); got.Code != Internal {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if st := r.srv.Close(); st.Calls["echo"][OK] != 3 || st.Dispatched != 4 || len(failures) != 0 || records.Load() != 3 || st.Unrecorded == 0 {
			t.Errorf("%s: %+v, %d records", name, st, records.Load())
		}
	}
}

// All records are there after Close, one each.
func TestAuditIsCompleteAfterClose(t *testing.T) {
	var got []string // of the draining goroutine, read after Close
	r := newRig(t, Config{MaxCalls: 100, Audit: func(rec Record) error {
		time.Sleep(time.Millisecond)
		got = append(got, rec.Call)
		return nil
	}}, echoTool())
	for i := range 50 {
		r.works(seq(i))
	}
	r.srv.Close()
	slices.Sort(got) // a record follows its reply, so the next call may come first
	if len(slices.Compact(got)) != 50 {
		t.Fatalf("records %v", got)
	}
}
