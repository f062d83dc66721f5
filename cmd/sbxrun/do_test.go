package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sbxrun/sbxrun/runtime"
)

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readRecord reads a result record.
func readRecord(t *testing.T, path string) runtime.Result {
	t.Helper()
	var res runtime.Result
	if err := json.Unmarshal([]byte(readFile(t, path)), &res); err != nil {
		t.Fatal(err)
	}
	return res
}

// TestRefusalsAreRecorded holds that --result is written whatever is wrong,
// wherever it stands.
func TestRefusalsAreRecorded(t *testing.T) {
	for name, args := range map[string][]string{
		"bad value before":     {"--memory", "0", "--result", "R", "--", "true"},
		"bad value after":      {"--result", "R", "--memory", "0", "--", "true"},
		"unknown flag before":  {"--memroy", "1G", "--result", "R", "--", "true"},
		"unknown flag with =":  {"--memroy=1G", "--result=R", "--", "true"},
		"unknown switch":       {"--quiet", "--result", "R", "--", "true"},
		"unknown flag after":   {"--stdin", "--result", "R", "--memroy", "--", "true"},
		"missing value":        {"--result", "R", "--memory"},
		"no program":           {"--result", "R"},
		"unreadable profile":   {"--profile", "/nope", "--result", "R", "--", "true"},
		"not in this version":  {"--net", "full", "--result", "R", "--", "true"},
		"bad events":           {"--events", "/dev/null", "--result", "R", "--", "true"},
		"contradicting limits": {"--memory", "16M", "--workspace-size", "16M", "--result", "R", "--", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "result.json")
			for i, a := range args {
				switch a {
				case "R":
					args[i] = path
				case "--result=R":
					args[i] = "--result=" + path
				}
			}
			checkRefusal(t, runCommand(t, append([]string{"do"}, args...)...))
			res := readRecord(t, path)
			if res.Started || res.Reason != runtime.ReasonRefused || res.Error == nil || res.Error.Message == "" || res.ExitCode != nil {
				t.Errorf("record: %+v", res)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("beside the record there is something: %v", entries)
			}
		})
	}
}

func TestFindResult(t *testing.T) {
	options := options(newRequest(nil))
	for _, c := range []struct {
		args []string
		want string
		ok   bool
	}{
		{[]string{"do", "--", "x", "--result", "r"}, "", false},
		{[]string{"do", "x", "--result", "r"}, "", false},
		{[]string{"do", "--env", "--result", "--nope"}, "", false}, // the value of --env
		{[]string{"do", "--nope", "--result", "r"}, "r", true},
		{[]string{"do", "--result"}, "", false},
		{[]string{"do", "--result", "a", "--result=b", "--nope"}, "b", true},
		{[]string{"do", "--stdin", "--result", "r"}, "r", true},
	} {
		if got, ok := findResult(c.args, options); got != c.want || ok != c.ok {
			t.Errorf("findResult(%q) = %q, %t; want %q, %t", c.args, got, ok, c.want, c.ok)
		}
	}
}

func TestRecordReplacesAFile(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "result.json"), "old")
	keep, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	runCommand(t, "do", "--result", path, "--memory", "0", "--", "true")
	if res := readRecord(t, path); res.Reason != runtime.ReasonRefused {
		t.Errorf("record: %+v", res)
	}
	old := make([]byte, 8)
	if n, _ := keep.ReadAt(old, 0); string(old[:n]) != "old" {
		t.Errorf("the file was changed in place: %q", old[:n])
	}
}

func TestRecordsNeedPlacesOfTheirOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	line := checkRefusal(t, runCommand(t, "do", "--result", path, "--events", filepath.Dir(path)+"/./x", "--", "true"))
	if want := "is where --result goes"; !strings.Contains(line, want) {
		t.Errorf("%q does not say %q", line, want)
	}
}

// fakeSandbox records what it is told.
type fakeSandbox struct {
	signals []syscall.Signal
	killed  int
}

func (f *fakeSandbox) Signal(s syscall.Signal) error { f.signals = append(f.signals, s); return nil }
func (f *fakeSandbox) Kill()                         { f.killed++ }

func TestForwardSignals(t *testing.T) {
	for _, c := range []struct {
		name    string
		send    []os.Signal
		wait    time.Duration
		signals int
		killed  int
	}{
		{"one is passed on", []os.Signal{syscall.SIGINT}, time.Second, 1, 0},
		{"grace", []os.Signal{syscall.SIGTERM}, stopGrace + time.Second, 1, 1},
		{"second kills", []os.Signal{syscall.SIGINT, syscall.SIGTERM}, time.Second, 1, 1},
		{"HUP and QUIT never kill", []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGHUP}, 10 * stopGrace, 3, 0},
		{"HUP, then INT", []os.Signal{syscall.SIGHUP, syscall.SIGINT}, time.Second, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSandbox{}
				ch, done := make(chan os.Signal), make(chan struct{})
				go forwardSignals(ch, f, done)
				for _, s := range c.send {
					ch <- s
				}
				time.Sleep(c.wait)
				close(done)
				synctest.Wait()
				if len(f.signals) != c.signals || f.killed != c.killed {
					t.Errorf("signals %v, killed %d times", f.signals, f.killed)
				}
			})
		})
	}
}
