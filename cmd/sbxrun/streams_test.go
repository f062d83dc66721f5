package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/runtime"
)

// status runs the command and returns how it ended.
func status(t *testing.T, cmd *exec.Cmd) (code int, died syscall.Signal) {
	t.Helper()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return -1, ws.Signal()
	}
	return cmd.ProcessState.ExitCode(), 0
}

// TestFailedWritesAreErrors: a record, report or message that cannot be written
// never kills sbxrun and never keeps it. All of these are refused before
// anything starts.
func TestFailedWritesAreErrors(t *testing.T) {
	bin := buildBinary(t)
	refused := []string{"do", "--memory", "0", "--result"}
	t.Run("file size limit", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "r.json")
		cmd := exec.Command("sh", append([]string{"-c", `ulimit -f 0; exec "$0" "$@"`, bin}, append(refused, path, "--", "true")...)...)
		var errout bytes.Buffer
		cmd.Stderr = &errout
		code, died := status(t, cmd)
		if code != runtime.StatusRefused || died != 0 || !strings.Contains(errout.String(), "--result: ") || !strings.Contains(errout.String(), "file too large") {
			t.Errorf("status %d, signal %v: %s", code, died, errout.String())
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
			t.Errorf("left: %v", entries)
		}
	})
	t.Run("nobody reads standard error", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "r.json")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r.Close()
		cmd := exec.Command(bin, append(refused, path, "--", "true")...)
		cmd.Stderr = w
		if code, died := status(t, cmd); code != runtime.StatusRefused || died != 0 {
			t.Errorf("status %d, signal %v", code, died)
		}
		if res := readRecord(t, path); res.Reason != runtime.ReasonRefused {
			t.Errorf("record: %+v", res)
		}
	})
	t.Run("nobody reads a report", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r.Close()
		for _, args := range [][]string{{"version"}, {"completion", "bash"}} {
			var errout bytes.Buffer
			cmd := exec.Command(bin, args...)
			cmd.Stdout, cmd.Stderr = w, &errout
			if code, died := status(t, cmd); code != statusNoReader || died != 0 || errout.Len() != 0 {
				t.Errorf("%q: status %d, signal %v: %s", args, code, died, errout.String())
			}
		}
	})
	t.Run("nobody reads the record", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(make([]byte, 1<<20)) // until it is full
		var errout bytes.Buffer
		// ExtraFiles are set to block.
		cmd := exec.Command(bin, append(refused, "3", "--", "true")...)
		cmd.ExtraFiles, cmd.Stderr = []*os.File{w}, &errout
		start := time.Now()
		code, died := status(t, cmd)
		if took := time.Since(start); took > 2*hostfile.WriteTime {
			t.Errorf("took %v", took)
		}
		if code != runtime.StatusRefused || died != 0 || !strings.Contains(errout.String(), "--result: nothing was read for 5s") {
			t.Errorf("status %d, signal %v: %s", code, died, errout.String())
		}
	})
}

// TestStdinIsChecked: what cannot be read is refused before the start.
func TestStdinIsChecked(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for in, want := range map[*os.File]string{dir: "standard input is a folder", out: "not open for reading", null: ""} {
		err := checkInput(in)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", in.Name(), err)
			}
		} else if err == nil || !strings.HasPrefix(err.Error(), "--stdin: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in.Name(), err, want)
		}
	}
}
