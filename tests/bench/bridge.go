package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
	"github.com/sbxrun/sbxrun/runtime"
)

type echoArgs struct {
	N int `json:"n"`
}

// latencyProgram prints the median of single calls, then the rate of 64
// processes at once.
const latencyProgram = `
import json, os, time
from sbx_tools import echo, set_result
for i in range(200): echo(n=i)
t = []
for i in range(2000):
    a = time.perf_counter(); echo(n=i); t.append(time.perf_counter() - a)
t.sort()
set_result({"median_ms": t[len(t)//2] * 1e3})
`

const rateProgram = `
import os, threading, time
from sbx_tools import echo, set_result
CALLERS, CALLS = 64, 150
gate = threading.Barrier(CALLERS + 1)
def work(k):
    echo(n=k); gate.wait()
    for i in range(CALLS): assert echo(n=i) == i
    gate.wait()
for k in range(CALLERS): threading.Thread(target=work, args=(k,), daemon=True).start()
gate.wait(); a = time.perf_counter(); gate.wait(); b = time.perf_counter()
set_result({"per_second": CALLERS * CALLS / (b - a)})
`

// bridgeClaims measures tool calls from Python: the round trip of one caller,
// and the rate of 64.
func bridgeClaims(_ int, host *runtime.Host) ([]claim, error) {
	echo, err := gofunc.New("echo", "returns n", func(_ context.Context, a echoArgs) (int, error) { return a.N, nil })
	if err != nil {
		return nil, err
	}
	tools, err := bridge.NewSet([]bridge.Tool{echo})
	if err != nil {
		return nil, err
	}
	one, err := bridgeRun(host, tools, latencyProgram, "median_ms")
	if err != nil {
		return nil, err
	}
	many, err := bridgeRun(host, tools, rateProgram, "per_second")
	if err != nil {
		return nil, err
	}
	fmt.Printf("tool calls from Python\n  %-28s %8.3f ms\n  %-28s %8.0f /s\n", "round trip, median", one, "64 callers", many)
	const target = 5000
	return []claim{{"bridge round trip from Python, ms", one, 0.3}, {"bridge, 5,000 calls/s / 64 callers' rate", target / many, 1}}, nil
}

func bridgeRun(host *runtime.Host, tools *bridge.Set, program, key string) (float64, error) {
	p := runtime.NewPolicy("/usr/bin/python3", "-c", program)
	p.Bridge.Tools, p.Bridge.MaxCalls, p.Bridge.Concurrency = tools, 100000, 64
	p.Limits.CPUs, p.Limits.Pids, p.Limits.Timeout = 2, 256, 5*time.Minute
	var errs bytes.Buffer
	r, err := host.Run(context.Background(), p, runtime.RunOptions{Stderr: &errs})
	if err != nil {
		return 0, err
	}
	os.Stderr.Write(errs.Bytes())
	var v map[string]float64
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return 0, fmt.Errorf("bridge program: %s, %v", r.Reason, err)
	}
	return v[key], nil
}
