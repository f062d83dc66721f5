package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Case 13: every byte of 1,000 fast exits.
func TestLastBytes(t *testing.T) {
	h := testHost(t)
	var wg sync.WaitGroup
	work := make(chan int)
	for range 4 {
		wg.Go(func() {
			for i := range work {
				want := fmt.Sprintf("x%d", i) // without a newline
				if r := runOn(t, h, NewPolicy("/bin/echo", "-n", want), RunOptions{}); r.Out != want || r.ExitStatus() != 0 {
					t.Errorf("run %d: %v", i, r)
				}
			}
		})
	}
	for i := range 1000 {
		work <- i
	}
	close(work)
	wg.Wait()
}

func TestLongLineAndBinary(t *testing.T) {
	r := py(t, `
import sys
sys.stdout.write("x" * (1 << 20))`).ok(t)
	if r.Out != strings.Repeat("x", 1<<20) || r.Output.Truncated {
		t.Errorf("%d bytes, truncated %v", len(r.Out), r.Output.Truncated)
	}
	r = py(t, `
import sys
b = bytes(range(256)) * 1000
for i in range(10):
    sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])
sys.stdout.flush(); sys.stderr.flush()`, func(p *Policy) { p.Limits.OutputBytes = 8 << 20 }).ok(t)
	var fwd, back []byte
	for range 1000 {
		for i := range 256 {
			fwd, back = append(fwd, byte(i)), append(back, byte(255-i))
		}
	}
	if sha256.Sum256([]byte(r.Out)) != sha256.Sum256(bytes.Repeat(fwd, 10)) || sha256.Sum256([]byte(r.Err)) != sha256.Sum256(bytes.Repeat(back, 10)) {
		t.Errorf("streams are mixed or changed: %d and %d bytes", len(r.Out), len(r.Err))
	}
}

// Case 11.
func TestOutputLimit(t *testing.T) {
	endless := `
while True: print("x" * 9999)`
	r := py(t, endless, timeout(2*time.Second))
	if r.Reason != ReasonTimeout || len(r.Out) != DefaultOutputBytes || !r.Output.Truncated || r.Output.StdoutBytes <= DefaultOutputBytes {
		t.Errorf("discard: %s %d of %d bytes, truncated %v", r.Reason, len(r.Out), r.Output.StdoutBytes, r.Output.Truncated)
	}
	stop := func(p *Policy) { p.Limits.OutputBytes, p.Limits.OutputOverflow = 1000, OverflowStop }
	r = py(t, endless, stop)
	if r.Reason != ReasonOutputLimit || len(r.Out) != 1000 || !r.Output.Truncated {
		t.Errorf("stop: %v", r)
	}
	if r := sh(t, "head -c 1000 /dev/zero; head -c 1000 /dev/zero >&2", stop).ok(t); len(r.Out) != 1000 || len(r.Err) != 1000 || r.Output.Truncated {
		t.Errorf("exactly the limit: %v", r)
	}
	if r := sh(t, "head -c 1001 /dev/zero >&2; sleep 1000", stop); r.Reason != ReasonOutputLimit || len(r.Err) != 1000 {
		t.Errorf("stderr: %v", r)
	}
}

type blockedWriter struct{ release chan struct{} }

func (w blockedWriter) Write(b []byte) (int, error) { <-w.release; return len(b), nil }

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// A consumer that fails or blocks keeps nothing alive.
func TestBadConsumers(t *testing.T) {
	h := testHost(t)
	r := runOn(t, h, NewPolicy("bash", "-c", "head -c 300000 /dev/zero; exit 3"), RunOptions{Stdout: brokenWriter{}})
	if r.Reason != ReasonExited || *r.ExitCode != 3 || !r.Output.Truncated || r.Output.StdoutBytes != 300000 {
		t.Errorf("failing: %v", r)
	}
	w := blockedWriter{make(chan struct{})}
	p := NewPolicy("bash", "-c", "head -c 300000 /dev/zero")
	p.Limits.Timeout = time.Second
	s, err := h.Start(context.Background(), p, RunOptions{Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	res := s.Wait() // the time limit, then the grace
	if res.Reason != ReasonTimeout || !res.Output.Truncated {
		t.Errorf("blocking: %v", ended{Result: res})
	}
	if !gone(s) {
		t.Error("processes are left")
	}
	close(w.release)
}

func TestResultValue(t *testing.T) {
	if r := sh(t, `echo x; echo 'RESULT: {"a": [1, 2.50]}'`).ok(t); string(r.Value) != `{"a": [1, 2.50]}` {
		t.Errorf("%s", r.Value)
	}
	if r := sh(t, `echo 'RESULT: {"a"'`).ok(t); r.Value != nil {
		t.Errorf("%s", r.Value)
	}
}
