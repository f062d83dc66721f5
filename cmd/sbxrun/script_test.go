package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/*.txtar against the real binary. Besides the
// standard commands the scripts have:
//
//	status N CMD ARG...      run CMD, which must exit with status N
//	within TIME N CMD...     the same, and it must not take longer
//	record FILE KEY=JSON...  check fields of a result record, "a.b" for nested ones
//	has FILE KEY TEXT        check that a text field contains the text
//	gone TEXT                no process of the machine has TEXT in its command line
//
// and the conditions [root] and [python3].
func TestScripts(t *testing.T) {
	bin := filepath.Dir(buildBinary(t))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": func(ts *testscript.TestScript, neg bool, args []string) { scriptStatus(ts, 0, args) },
			"within": func(ts *testscript.TestScript, neg bool, args []string) {
				limit, err := time.ParseDuration(args[0])
				ts.Check(err)
				scriptStatus(ts, limit, args[1:])
			},
			"record": scriptRecord,
			"has":    scriptHas,
			"gone":   scriptGone,
		},
		Condition: scriptCondition,
	})
}

func scriptStatus(ts *testscript.TestScript, limit time.Duration, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	path, err := lookPath(ts.Getenv("PATH"), args[1])
	ts.Check(err)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	_, _ = ts.Stdout().Write(stdout.Bytes())
	_, _ = ts.Stderr().Write(stderr.Bytes())
	var exit *exec.ExitError
	got := 0
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	ts.Logf("[%v, status %d]\n%.2000s%.2000s", took.Round(time.Millisecond), got, stdout.String(), stderr.String())
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
	if limit > 0 && took > limit {
		ts.Fatalf("took %v, limit %v", took, limit)
	}
}

func lookPath(path, name string) (string, error) {
	for dir := range strings.SplitSeq(path, ":") {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode()&0o111 != 0 && !st.IsDir() {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", name)
}

// field returns a field of a record as JSON text.
func field(ts *testscript.TestScript, file, key string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	d.UseNumber()
	ts.Check(d.Decode(&v))
	for part := range strings.SplitSeq(key, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			ts.Fatalf("%s: %q is in no object", file, key)
		}
		v = m[part]
	}
	text, err := json.Marshal(v)
	ts.Check(err)
	return string(text)
}

func scriptRecord(ts *testscript.TestScript, neg bool, args []string) {
	for _, check := range args[1:] {
		key, want, _ := strings.Cut(check, "=")
		got := field(ts, args[0], key)
		// Words without quotes are texts.
		if got != want && got != strconv.Quote(want) {
			ts.Fatalf("%s: %s is %s, want %s\n%s", args[0], key, got, want, ts.ReadFile(args[0]))
		}
	}
}

func scriptHas(ts *testscript.TestScript, neg bool, args []string) {
	if got := field(ts, args[0], args[1]); strings.Contains(got, args[2]) == neg {
		ts.Fatalf("%s: %s is %s", args[0], args[1], got)
	}
}

// goneWait is the time in which everything of a sandbox has to be dead
// (docs/SPECIFICATION.md).
const goneWait = 200 * time.Millisecond

func scriptGone(ts *testscript.TestScript, neg bool, args []string) {
	end := time.Now().Add(goneWait)
	for {
		pid := processWith(args[0])
		if pid == "" {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("process %s still runs %q", pid, args[0])
		}
		time.Sleep(goneWait / 20)
	}
}

func processWith(text string) string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && bytes.Contains(line, []byte(text)) {
			return filepath.Base(filepath.Dir(f))
		}
	}
	return ""
}

// scriptCondition answers [root] and [python3]. Where one of them is missing on
// CI the script fails instead of being skipped, and so does an unknown word.
func scriptCondition(word string) (bool, error) {
	ok := false
	switch word {
	case "root":
		ok = os.Geteuid() == 0
	case "python3":
		_, err := os.Stat("/usr/bin/python3")
		ok = err == nil
	default:
		return false, fmt.Errorf("unknown requirement %q", word)
	}
	if !ok && os.Getenv("CI") != "" {
		return false, fmt.Errorf("%s is missing, and on CI nothing may be", word)
	}
	return ok, nil
}
