package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ran is the outcome of one command line run in this process.
type ran struct {
	status      int
	out, errout string
}

// runCommand runs one command line with files for standard streams.
func runCommand(t *testing.T, args ...string) ran {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	in, out, errout := open("in"), open("out"), open("err")
	status := run(args, streams{in: in, out: out, err: errout})
	return ran{status, readFile(t, out.Name()), readFile(t, errout.Name())}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkRefusal fails unless the outcome is a refusal as style.md has it: status
// 125, one line on standard error and perhaps a hint, nothing on standard output.
// It returns the line.
func checkRefusal(t *testing.T, r ran) string {
	t.Helper()
	if r.status != 125 {
		t.Errorf("status %d, want 125", r.status)
	}
	if r.out != "" {
		t.Errorf("standard output is not empty: %q", r.out)
	}
	lines := strings.Split(strings.TrimSuffix(r.errout, "\n"), "\n")
	if len(lines) > 2 || len(lines) == 2 && !strings.HasPrefix(lines[1], "hint: ") {
		t.Errorf("not one line and a hint: %q", r.errout)
	}
	if !strings.HasPrefix(lines[0], "sbxrun: ") || strings.ContainsFunc(lines[0], func(c rune) bool { return c < ' ' || c == 0x7f }) {
		t.Errorf("not a printable line of sbxrun: %q", lines[0])
	}
	return lines[0]
}
