package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The budget of what the packages of the command do before main. Time is too
// noisy to hold a test to; what they allocate follows it and is exact.
const (
	maxInitAllocs = 250
	maxInitBytes  = 48 << 10
)

// binaryEnv names a sbxrun that was built beforehand, for machines where a build
// takes long (tests/vm). Its file is called sbxrun.
const binaryEnv = "SBXRUN_TEST_BINARY"

// buildBinary builds sbxrun as it is released, with further flags of go build,
// and returns its path.
func buildBinary(t testing.TB, flags ...string) string {
	t.Helper()
	if bin := os.Getenv(binaryEnv); bin != "" && len(flags) == 0 {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "sbxrun")
	args := append([]string{"build", "-buildvcs=false", "-o", bin}, flags...)
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func TestInitBudget(t *testing.T) {
	cmd := exec.Command(buildBinary(t), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var allBytes, allAllocs, packages int
	for line := range strings.Lines(trace.String()) {
		// init NAME @0.1 ms, 0.02 ms clock, 300 bytes, 7 allocs
		var name string
		var at, took float64
		var bytes, allocs int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &bytes, &allocs); n == 5 {
			allBytes, allAllocs, packages = allBytes+bytes, allAllocs+allocs, packages+1
		}
	}
	if packages < 10 {
		t.Fatalf("the trace was not understood:\n%s", trace.String())
	}
	t.Logf("%d packages, %d bytes, %d allocations", packages, allBytes, allAllocs)
	if allBytes > maxInitBytes || allAllocs > maxInitAllocs {
		t.Errorf("before main: %d bytes, %d allocations; budget %d and %d\n%s",
			allBytes, allAllocs, maxInitBytes, maxInitAllocs, trace.String())
	}
}

// BenchmarkStart is the start-up of the command itself; BenchmarkDo adds one
// sandbox and its end.
func BenchmarkStart(b *testing.B) { benchmarkCommand(b, "version") }

func BenchmarkDo(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	benchmarkCommand(b, "do", "--", "true")
}

func benchmarkCommand(b *testing.B, args ...string) {
	bin := buildBinary(b)
	for b.Loop() {
		if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}
