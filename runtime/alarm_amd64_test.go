package runtime

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// kernelSigaction is struct sigaction of rt_sigaction(2) on x86-64.
type kernelSigaction struct {
	handler, flags, restorer, mask uint64
}

// noRestart takes SA_RESTART from a signal's handler, as a host in C would
// have it: then a signal interrupts system calls for real.
func noRestart(sig syscall.Signal) error {
	const saRestart = 0x10000000
	var sa kernelSigaction
	if _, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&sa)), 8, 0, 0); e != 0 {
		return e
	}
	sa.flags &^= saRestart
	if _, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&sa)), 0, 8, 0, 0); e != 0 {
		return e
	}
	return nil
}

// storm sends SIGALRM to every thread of this process until stop is closed.
func storm(stop chan struct{}) {
	pid := os.Getpid()
	for {
		select {
		case <-stop:
			return
		default:
		}
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, e := range tasks {
			var tid int
			fmt.Sscan(e.Name(), &tid)
			syscall.Tgkill(pid, tid, syscall.SIGALRM)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func init() { moreHelpers["alarm"] = helperAlarm }

func helperAlarm(dir string) (any, error) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGALRM)
	go func() {
		for range c {
		}
	}()
	if err := noRestart(syscall.SIGALRM); err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	go storm(stop)
	h, err := Open(Options{StateDir: dir})
	if err != nil {
		return nil, err
	}
	ok, bad := helperRuns(h, 60, 3)
	close(stop)
	err = h.Close()
	return runsInfo{OK: ok, Failures: bad}, err
}

// Case 17: system calls of the host are interrupted all the time, with handlers
// that do not restart them, as an alarm of a C library would have it.
func TestSignalStormInTheHost(t *testing.T) {
	requireRoot(t)
	var info runsInfo
	answer(t, helper("alarm:"+filepath.Join(t.TempDir(), "state")), &info)
	if info.OK != 60 {
		t.Errorf("%d of 60: %.2000v", info.OK, info.Failures)
	}
}
