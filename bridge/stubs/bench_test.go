package stubs_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/bridge"
)

// pythonNumber runs a program that prints one number.
func pythonNumber(b *testing.B, program string) float64 {
	b.Helper()
	s := serve(b, bridge.Config{MaxCalls: 1 << 30}, echo())
	f, err := strconv.ParseFloat(strings.TrimSpace(s.python(program)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkPythonCall is one blocking call from one thread, in microseconds.
func BenchmarkPythonCall(b *testing.B) {
	for range b.N {
		b.ReportMetric(pythonNumber(b, `
from sbx_tools import *
import time
for i in range(200): echo(i)
lap = []
for i in range(3000):
    t = time.perf_counter(); echo(i); lap.append(time.perf_counter() - t)
print(sorted(lap)[1500] * 1e6)`), "median-us/call")
	}
}

// BenchmarkPythonCallers64 is 64 single-threaded processes at once.
func BenchmarkPythonCallers64(b *testing.B) {
	for range b.N {
		b.ReportMetric(pythonNumber(b, `
from sbx_tools import *
import os, time
N = 150
go_r, go_w = os.pipe()
kids = []
for n in range(64):
    pid = os.fork()
    if pid == 0:
        os.close(go_w)
        echo(0); os.read(go_r, 1)
        for i in range(N):
            if echo([n, i]) != [n, i]: os._exit(1)
        os._exit(0)
    kids.append(pid)
time.sleep(2)
t = time.perf_counter(); os.close(go_w)
assert all(os.waitpid(p, 0)[1] == 0 for p in kids)
print(64 * N / (time.perf_counter() - t))`), "calls/s")
	}
}

// BenchmarkPythonThreads10 is ten threads of one process.
func BenchmarkPythonThreads10(b *testing.B) {
	for range b.N {
		b.ReportMetric(pythonNumber(b, `
from sbx_tools import *
import threading, time
def work():
    for i in range(500): echo(i)
ts = [threading.Thread(target=work) for _ in range(10)]
t = time.perf_counter()
for x in ts: x.start()
for x in ts: x.join()
print(5000 / (time.perf_counter() - t))`), "calls/s")
	}
}

// BenchmarkPythonImport is what `import sbx_tools` adds, with its compiled form
// not cached, as on a read-only mount.
func BenchmarkPythonImport(b *testing.B) {
	for range b.N {
		b.ReportMetric(pythonNumber(b, `
import time
t = time.perf_counter(); import sbx_tools; print((time.perf_counter() - t) * 1e6)`), "us")
	}
}

// TestMain puts the directories on a tmpfs where there is one, as in production.
func TestMain(m *testing.M) {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		_ = os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}
