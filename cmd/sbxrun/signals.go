package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopGrace is how long the program may take to end after the first SIGINT or
// SIGTERM. It is what process managers give by default before they kill sbxrun
// itself.
const stopGrace = 10 * time.Second

// signalled is what forwardSignals needs of a sandbox.
type signalled interface {
	Signal(syscall.Signal) error
	Kill()
}

// signalCatcher collects the signals that are meant for the program.
type signalCatcher struct {
	ch chan os.Signal
	// first ends with the first signal that asks sbxrun to stop, for as long as
	// there is no program to pass it to.
	first context.Context
	stop  context.CancelFunc
	raw   chan os.Signal
}

// surviveWrites makes a failed write an error and not the end of sbxrun: who
// would then clean up behind it, and write the record? SIGPIPE comes from a
// closed standard output, SIGXFSZ from a file at its size limit (ulimit -f).
// Both are caught, not ignored: the latter would be inherited by everything that
// is started from here.
func surviveWrites() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)
}

// catchSignals starts collecting. A signal that the caller had set to be
// ignored (nohup) stays ignored.
func catchSignals() *signalCatcher {
	// Room for a burst: a forwarded signal must not be lost while another is passed on.
	c := &signalCatcher{ch: make(chan os.Signal, 16), raw: make(chan os.Signal, 16)}
	c.first, c.stop = context.WithCancel(context.Background())
	var wanted []os.Signal
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			wanted = append(wanted, s)
		}
	}
	if len(wanted) > 0 {
		signal.Notify(c.raw, wanted...)
	}
	go func() {
		for s := range c.raw {
			c.stop()
			select {
			case c.ch <- s:
			default: // the 17th waiting signal adds nothing
			}
		}
	}()
	return c
}

// release stops collecting.
func (c *signalCatcher) release() {
	signal.Stop(c.raw)
	close(c.raw)
	c.stop()
}

// forwardSignals passes signals to the program until done is closed. A second
// SIGINT or SIGTERM, or the end of the grace time after the first, kills the
// sandbox.
func forwardSignals(from <-chan os.Signal, to signalled, done <-chan struct{}) {
	var (
		asked bool
		grace <-chan time.Time
	)
	for {
		select {
		case <-done:
			return
		case <-grace:
			to.Kill()
			grace = nil
		case s := <-from:
			sig, ok := s.(syscall.Signal)
			if !ok {
				continue
			}
			stops := sig == syscall.SIGINT || sig == syscall.SIGTERM
			if stops && asked {
				to.Kill()
				continue
			}
			// An error means that the program is gone already, which is what was asked.
			_ = to.Signal(sig)
			if stops {
				asked, grace = true, time.After(stopGrace)
			}
		}
	}
}
