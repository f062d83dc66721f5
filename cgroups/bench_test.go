package cgroups

import (
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// BenchmarkLife is what one sandbox costs: create with limits, enter, read the
// counters, remove. A thread stands for the launcher's child; on v2 nothing
// enters, for there the clone does it.
func BenchmarkLife(b *testing.B) {
	p := openParent(b)
	idle := newGroup(b, p, testLimits())
	onThread(func() {
		for i := range b.N {
			g, err := p.New("b"+strconv.Itoa(i), testLimits())
			if err != nil {
				b.Error(err)
				return
			}
			enter(b, g)
			if _, err := g.Stats(); err != nil {
				b.Error(err)
			}
			b.StopTimer()
			enter(b, idle)
			b.StartTimer()
			if err := g.Remove(); err != nil {
				b.Error(err)
			}
		}
	})
}

// onThread runs f on a thread that ends with it, so that no group keeps it.
// The main thread cannot end before the process, and is passed over.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, which ends the thread
		if syscall.Gettid() == syscall.Getpid() {
			onThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

func enter(b *testing.B, g *Group) {
	for _, fd := range g.JoinFDs() {
		if _, err := syscall.Write(fd, []byte("0")); err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkNewRemove(b *testing.B) {
	p := openParent(b)
	for i := range b.N {
		g, err := p.New("b"+strconv.Itoa(i), testLimits())
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStats(b *testing.B) {
	g := newGroup(b, openParent(b), testLimits())
	for b.Loop() {
		stats(b, g)
	}
}

func BenchmarkPidsDenied(b *testing.B) {
	g := newGroup(b, openParent(b), testLimits())
	for b.Loop() {
		if _, err := g.PidsDenied(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetect(b *testing.B) {
	for b.Loop() {
		if _, err := Detect(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenClose(b *testing.B) {
	requireRoot(b)
	l, err := Detect()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := Open(l, uniqueID())
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOneShot is what `sbxrun do` pays, entering and counters excepted.
func BenchmarkOneShot(b *testing.B) {
	requireRoot(b)
	for b.Loop() {
		l, err := Detect()
		if err != nil {
			b.Fatal(err)
		}
		g, err := NewSingle(l, uniqueID(), testLimits())
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
