package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/selftest"
)

// weaknesses are the test builds that lack one control each, with an attempt
// that has to notice it.
var weaknesses = map[string]string{
	"network":         "net-namespace",
	"seccomp":         "keyctl",
	"capabilities":    "capabilities",
	"no-new-privs":    "no-new-privs",
	"masks":           "proc-details",
	"user-namespaces": "clone-newuser",
	"replies":         "bridge-forge-reply",
	"tmpfs":           "workspace-limit",
	"read-only":       "write-etc", // the /usr of tests/vm is read-only anyway
	"memory":          "memory-limit",
	"pids":            "fork-limit",
	// The control of this test: a weakness that nobody knows changes nothing.
	"": "",
}

// TestSelftestNoticesWeakness runs the self-test of builds that lack a control.
func TestSelftestNoticesWeakness(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("root is missing, and on CI nothing may be")
		}
		t.Skip("needs root")
	}
	if testing.Short() {
		t.Skip("builds the command many times")
	}
	for weakness, probe := range weaknesses {
		t.Run("without "+weakness, func(t *testing.T) {
			flags := "-X github.com/sbxrun/sbxrun/runtime.weakness=" + weakness
			if weakness == "network" { // the launcher itself would refuse
				flags += " -X github.com/sbxrun/sbxrun/runtime/direct.launcherPath=" + weakLauncher(t)
			}
			bin := buildBinary(t, "-tags", "sbxrun_weaken", "-ldflags", flags)
			cmd := exec.Command(bin, "selftest", "--json")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var report selftest.Report
			if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
				t.Fatalf("%v: %v\n%s%s", err, jsonErr, out, &stderr)
			}
			if report.OK != (err == nil) || report.OK != (weakness == "") {
				t.Errorf("ok is %t, ended with %v", report.OK, err)
			}
			noticed := probe == ""
			for _, v := range report.Probes {
				noticed = noticed || v.Name == probe && !v.OK
				if !v.OK && weakness == "" {
					t.Errorf("%s: expected %s, got %s", v.Name, v.Expected, v.Got)
				}
			}
			if !noticed {
				t.Errorf("%s did not notice", probe)
			}
		})
	}
}

// weakLauncher builds a launcher without its own check of a plan's namespaces.
func weakLauncher(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("../../runtime/direct/launcher/build.sh", dir)
	build.Env = append(os.Environ(), "SBX_CFLAGS=-DSBX_WEAKEN")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "launcher-"+runtime.GOARCH)
}
