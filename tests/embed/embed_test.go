package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build compiles the host program without cgo.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "embed")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

// TestBuildsWithoutCgo: an embedding host needs no C compiler, and gets none of
// the command's heavy dependencies.
func TestBuildsWithoutCgo(t *testing.T) {
	out, err := exec.Command("go", "version", "-m", build(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "CGO_ENABLED=0") {
		t.Errorf("%s", out)
	}
	for _, heavy := range []string{"spf13/cobra", "runc", "libseccomp", "godbus", "logrus"} {
		if strings.Contains(string(out), heavy) {
			t.Errorf("the library brings %s along:\n%s", heavy, out)
		}
	}
}

// TestEmbed runs the host program: both tools answer, the network does not.
func TestEmbed(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "state")
	cmd := exec.Command(build(t), dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := o.Result
	if o.Output != "42 HI\nNetwork is unreachable\n" || r.ExitStatus() != 0 || r.NetworkDenials != 1 ||
		r.ToolCalls.ByTool["add"] != 2 || r.ToolCalls.ByTool["shout"] != 1 || string(r.Value) == "" {
		t.Errorf("%q %s", o.Output, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
