//go:build cgo && linux && amd64

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loadEnv makes the test binary a process that loads the filter on its standard
// input and prints how many nanoseconds that took.
const loadEnv = "SBXRUN_SECCOMP_LOAD_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(loadEnv) == "" {
		os.Exit(m.Run())
	}
	if err := loadChild(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(99)
	}
}

func loadChild() error {
	prog, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	start := time.Now()
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	took := time.Since(start)
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	fmt.Print(took.Nanoseconds())
	return nil
}

// BenchmarkLoad loads the allow filter and libseccomp's in turn, each time into
// a new process, and reports the medians:
//
//	go test -run - -bench Load -benchtime 200x ./seccomp/internal/gen
func BenchmarkLoad(b *testing.B) {
	pair := pairs(b, runtime.GOARCH)["allow"]
	var ours, theirs []int
	for range b.N {
		ours = append(ours, loadTime(b, pair.ours))
		theirs = append(theirs, loadTime(b, pair.theirs))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	tree, lib := float64(ours[b.N/2]), float64(theirs[b.N/2])
	b.ReportMetric(0, "ns/op") // it counts the start of two processes
	b.ReportMetric(tree, "tree-ns")
	b.ReportMetric(lib, "libseccomp-ns")
	b.ReportMetric(lib/tree, "ratio")
}

func loadTime(tb testing.TB, prog []byte) int {
	tb.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.Stdin = bytes.NewReader(prog)
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	ns, err := strconv.Atoi(string(out))
	if err != nil {
		tb.Fatal(err)
	}
	return ns
}

// TestLoad: the kernel takes both.
func TestLoad(t *testing.T) {
	for name, pair := range pairs(t, runtime.GOARCH) {
		if name != "init" { // it doesn't let the child report
			loadTime(t, pair.ours)
			loadTime(t, pair.theirs)
		}
	}
}
