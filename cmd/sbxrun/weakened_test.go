package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/selftest"
)

// weaknesses are the test builds that lack one control each, with an attempt
// that has to notice it.
var weaknesses = map[string]string{
	"network":         "tcp4-canary-reached",
	"ipc":             "ipc-namespace",
	"seccomp":         "keyctl",
	"capabilities":    "capabilities",
	"no-new-privs":    "no-new-privs",
	"masks":           "proc-details",
	"user-namespaces": "clone-newuser",
	"replies":         "bridge-forge-reply",
	"tmpfs":           "workspace-limit",
	"read-only":       "write-usr",
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
			bin := buildBinary(t, "-tags", "sbxrun_weaken",
				"-ldflags", "-X github.com/sbxrun/sbxrun/runtime.weakness="+weakness)
			out, err := exec.Command(bin, "selftest", "--json").Output()
			var report selftest.Report
			if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
				t.Fatalf("%v: %v\n%s", err, jsonErr, out)
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
