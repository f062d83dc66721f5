package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

// explainEnd says on standard error what ended the run where that was not the
// program's own doing. A program that exits or dies by itself gets no comment.
func (a *app) explainEnd(res *runtime.Result, p *runtime.Policy) {
	if res.Error != nil {
		e := *res.Error
		a.report("do", &errdef.Error{Code: e.Code, Msg: e.Message, Hint: e.Hint})
		return
	}
	if text, hint := ending(res, p); text != "" {
		a.report("do", &errdef.Error{Msg: text, Hint: hint})
	}
}

func ending(res *runtime.Result, p *runtime.Policy) (text, hint string) {
	switch res.Reason {
	case runtime.ReasonTimeout:
		return fmt.Sprintf("the time limit of %s was reached", values.FormatDuration(p.Limits.Timeout)), "--timeout sets it"
	case runtime.ReasonOOM:
		return fmt.Sprintf("the memory limit of %s was reached, processes killed: %d",
			values.FormatSize(p.Limits.Memory), res.OOMKills), "--memory sets it"
	case runtime.ReasonPidsLimit:
		return fmt.Sprintf("the limit of %d processes and threads was reached, refusals: %d",
			p.Limits.Pids, res.PidsDenied), "--pids sets it"
	case runtime.ReasonOutputLimit:
		return fmt.Sprintf("the output limit of %s was reached", values.FormatSize(p.Limits.OutputBytes)),
			"--output-limit sets it, --output-overflow discard lets the program go on"
	case runtime.ReasonBridgeFlood:
		return "too many broken tool requests", ""
	case runtime.ReasonKilled:
		return "the sandbox was killed", ""
	}
	return "", ""
}

// output passes the program's output on. When its reader is gone, the program
// gets the signal that it would have got without sbxrun in between.
type output struct {
	file   *os.File
	mu     sync.Mutex
	broken bool
	tell   func()
}

func newOutput(f *os.File) *output { return &output{file: f} }

// Write passes p on.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.mu.Lock()
		first, tell := !o.broken, o.tell
		o.broken = true
		o.mu.Unlock()
		if first && tell != nil {
			tell()
		}
	}
	return n, err
}

// onBroken sets what to do when the reader is gone, and does it when it is
// gone already.
func (o *output) onBroken(tell func()) {
	o.mu.Lock()
	o.tell = tell
	late := o.broken
	o.mu.Unlock()
	if late {
		tell()
	}
}
