package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

// runHelper is the test binary as an embedding host of its own; it returns the
// exit code. What it has to say is one JSON value on standard output.
func runHelper(mode string) int {
	mode, arg, _ := strings.Cut(mode, ":")
	var v any
	var err error
	if f := moreHelpers[mode]; f != nil {
		v, err = f(arg)
		mode = ""
	}
	switch mode {
	case "":
	case "hold":
		v, err = helperHold(arg)
	case "heap":
		v, err = helperHeap(arg)
	case "open":
		v = helperOpen(arg)
	case "rootless":
		v, err = helperRootless(arg)
	default:
		err = fmt.Errorf("unknown helper %q", mode)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(v)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// moreHelpers are those of one architecture.
var moreHelpers = map[string]func(string) (any, error){}

// helper starts the test binary as a helper.
func helper(mode string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp", helperEnv + "=" + mode}
	cmd.Stderr = os.Stderr
	return cmd
}

// answer runs a helper to its end and decodes what it said.
func answer(t testing.TB, cmd *exec.Cmd, v any) {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

type heldInfo struct {
	Supervisor string
	PIDs       []int
}

// helperHold runs two sandboxes with children and never ends.
func helperHold(dir string) (any, error) {
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		return nil, err
	}
	info := heldInfo{Supervisor: h.self.id}
	for range 2 {
		out := newLineWriter()
		s, err := h.Start(context.Background(), NewPolicy("bash", "-c",
			"(trap '' TERM HUP INT; setsid sleep 1000) & sleep 1000 & echo ready; wait"), RunOptions{Stdout: out})
		if err != nil {
			return nil, err
		}
		out.await("ready")
		info.PIDs = append(info.PIDs, sandboxPIDs(s)...)
	}
	info.PIDs = append(info.PIDs, children(os.Getpid())...)
	if err := json.NewEncoder(os.Stdout).Encode(info); err != nil {
		return nil, err
	}
	select {}
}

func helperRuns(h *Host, n, workers int) (ok int, failures []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range work {
				var out bytes.Buffer
				r, err := h.Run(context.Background(), NewPolicy("echo", fmt.Sprint(i)), RunOptions{Stdout: &out})
				mu.Lock()
				if err == nil && r.ExitStatus() == 0 && out.String() == fmt.Sprintln(i) {
					ok++
				} else {
					failures = append(failures, fmt.Sprint(i, " ", err, " ", ended{Result: r, Out: out.String()}))
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	return ok, failures
}

type runsInfo struct {
	OK       int
	Failures []string
	Extra    string
}

func helperHeap(dir string) (any, error) {
	heap := make([]byte, 1<<30)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 1
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		return nil, err
	}
	ok, bad := helperRuns(h, 20, 4)
	close(stop)
	wg.Wait()
	return runsInfo{ok, bad, fmt.Sprint(heap[4096])}, h.Close()
}

type openInfo struct {
	Code errdef.Code
	Text string
	Hint string
}

func helperOpen(dir string) openInfo {
	h, err := Open(Options{StateDir: dir})
	if err == nil {
		h.Close()
		return openInfo{Text: "opened"}
	}
	r := NewErrorRecord(err)
	return openInfo{r.Code, r.Message, r.Hint}
}
