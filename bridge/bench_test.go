package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fastClient speaks the protocol as cheaply as Go can: it blocks on a doorbell
// of its own.
type fastClient struct {
	r    *rig
	bell *os.File
	n    int
	seq  int
	id   string
}

func (r *rig) client(n int) *fastClient {
	c := &fastClient{r: r, n: n, id: fmt.Sprintf("b%d_", n)}
	path := filepath.Join(r.res, fmt.Sprintf("bell_%d", n))
	for range 2000 { // slots grow when the client before asked for them
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			c.bell = f
			return c
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatalf("no %s", path)
	return nil
}

func (c *fastClient) call(t testing.TB) {
	c.seq++
	id := fmt.Sprintf("%s%d", c.id, c.seq)
	req := filepath.Join(c.r.req, "req_"+id+".json")
	body := fmt.Appendf(nil, `{"v":1,"tool":"echo","args":{"v":%d},"bell":%d}`, c.seq, c.n)
	if err := os.WriteFile(req+".tmp", body, 0o644); err != nil {
		t.Error(err)
		return
	}
	if err := os.Rename(req+".tmp", req); err != nil {
		t.Error(err)
		return
	}
	var b [64]byte
	for {
		raw, err := os.ReadFile(filepath.Join(c.r.res, "resp_"+id+".json"))
		if err == nil {
			if want := fmt.Sprintf(`{"v":1,"id":%q,"result":%d}`, id, c.seq); string(raw) != want {
				t.Errorf("got %s, want %s", raw, want)
			}
			break
		}
		_ = c.bell.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = c.bell.Read(b[:])
	}
	_ = os.Remove(req)
}

// shmRig serves directories on a tmpfs, as in production.
func shmRig(b testing.TB, cfg Config) *rig {
	dir, err := os.MkdirTemp("/dev/shm", "sbx-bench")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	w, err := NewWatcher()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close() })
	cfg.Audit = func(Record) error { return nil }
	return newRigOn(b, w, dir, cfg, echoTool())
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkRoundTrip is one caller, client and host in one process.
func BenchmarkRoundTrip(b *testing.B) {
	r := shmRig(b, Config{MaxCalls: 1 << 30})
	c := r.client(0)
	c.call(b)
	start := cpuTime()
	for b.Loop() {
		c.call(b)
	}
	b.ReportMetric(float64((cpuTime()-start).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkCallers64 is 64 callers at once; client and host share the process.
func BenchmarkCallers64(b *testing.B) {
	r := shmRig(b, Config{MaxCalls: 1 << 30})
	var clients []*fastClient
	for n := range 64 {
		c := r.client(n)
		c.call(b)
		clients = append(clients, c)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	start := cpuTime()
	b.ResetTimer()
	for _, c := range clients {
		wg.Go(func() {
			for done.Add(1) <= int64(b.N) {
				c.call(b)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64((cpuTime()-start).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkHostCost drives the intake and the dispatch alone: what the host pays
// for a call once the request file is there.
func BenchmarkHostCost(b *testing.B) {
	r := shmRig(b, Config{MaxCalls: 1 << 30})
	r.srv.Close()
	srv, err := newPollingWatcher().Serve(b.Context(), func() Config {
		for _, n := range []string{"bell", "bell_0", "bell_1"} {
			_ = os.Remove(filepath.Join(r.res, n))
		}
		return r.cfg
	}())
	if err != nil {
		b.Fatal(err)
	}
	close(srv.stop) // we drive it
	srv.loop.Wait()
	const batch = 200
	var cpu time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; done += batch {
		b.StopTimer()
		var ids []string
		for k := range batch {
			id := fmt.Sprintf("h%d_%d", done, k)
			r.put(id, `{"v":1,"tool":"echo","args":{"v":1},"bell":0}`)
			ids = append(ids, id)
		}
		b.StartTimer()
		start := cpuTime()
		for _, id := range ids {
			srv.event(event{name: "req_" + id + ".json"})
		}
		srv.settled.Wait()
		cpu += cpuTime() - start
		b.StopTimer()
		for _, id := range ids {
			r.ack(id)
		}
		b.StartTimer()
		start = cpuTime()
		for _, id := range ids {
			srv.event(event{name: "req_" + id + ".json", gone: true})
		}
		cpu += cpuTime() - start
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64((b.N+batch-1)/batch*batch), "cpu-us/op")
	srv.cancel()
}

// BenchmarkServe is what a short run pays for having a bridge.
func BenchmarkServe(b *testing.B) {
	r := shmRig(b, Config{})
	r.srv.Close()
	for b.Loop() {
		b.StopTimer()
		for _, n := range []string{"bell", "bell_0", "bell_1"} {
			_ = os.Remove(filepath.Join(r.res, n))
		}
		b.StartTimer()
		srv, err := r.w.Serve(b.Context(), r.cfg)
		if err != nil {
			b.Fatal(err)
		}
		srv.Close()
	}
}

func BenchmarkParse(b *testing.B) {
	raw := []byte(`{"v":1,"tool":"echo","args":{"city":"Paris","days":5,"units":["c","f"],"nested":{"a":1.5}},"bell":3}`)
	lim := Limits{}.withDefaults()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseRequest(raw, lim); err != nil {
			b.Fatal(err)
		}
	}
}
