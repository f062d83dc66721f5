package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func report1(t *testing.T, allowed string, lines ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	r := newReport(map[string]bool{allowed: true}, &out)
	r.readAll(strings.NewReader(strings.Join(lines, "\n")))
	err := r.close()
	return out.String(), err
}

const passed = `{"Action":"pass","Package":"github.com/sbxrun/sbxrun/a","Test":"TestA"}`

func TestPassIsCountedAndQuiet(t *testing.T) {
	out, err := report1(t, "",
		`{"Action":"output","Package":"github.com/sbxrun/sbxrun/a","Test":"TestA","Output":"noise\n"}`, passed,
		`{"Action":"output","Package":"github.com/sbxrun/sbxrun/a","Output":"ok  \tgithub.com/sbxrun/sbxrun/a\t1s\n"}`,
		`{"Action":"pass","Package":"github.com/sbxrun/sbxrun/a"}`)
	if err != nil || out != "ok  \tgithub.com/sbxrun/sbxrun/a\t1s\n1 passed, 0 failed, 0 skipped\n" {
		t.Errorf("%v: %q", err, out)
	}
}

func TestSkipFailsUnlessAllowed(t *testing.T) {
	skip := `{"Action":"skip","Package":"github.com/sbxrun/sbxrun/a/b","Test":"TestB/sub"}`
	why := `{"Action":"output","Package":"github.com/sbxrun/sbxrun/a/b","Test":"TestB/sub","Output":"needs root\n"}`
	out, err := report1(t, "", passed, why, skip)
	if err == nil || !strings.Contains(out, "needs root\n") || !strings.Contains(out, "1 passed, 1 failed, 1 skipped") {
		t.Errorf("%v: %q", err, out)
	}
	for _, allowed := range []string{"a/b TestB/sub", "a/b TestB"} {
		if out, err := report1(t, allowed, passed, why, skip); err != nil {
			t.Errorf("%s: %v: %q", allowed, err, out)
		}
	}
}

func TestFailureIsShown(t *testing.T) {
	out, err := report1(t, "", passed,
		`{"Action":"output","Package":"p","Test":"TestC","Output":"because\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestC"}`,
		`{"Action":"fail","Package":"p"}`,
		`{"Action":"build-output","ImportPath":"q","Output":"q.go:1: no\n"}`,
		`{"Action":"build-fail","ImportPath":"q"}`,
		`{"Action":"fail","Package":"q"}`)
	for _, want := range []string{"because\n", "q.go:1: no\n", "1 passed, 2 failed"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: no %q in %q", err, want, out)
		}
	}
}

func TestEventsOfAnotherRunAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	text := `{"Action":"pass","Package":"q","Test":"TestQ"}
{"Action":"pass","Package":"q"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := newReport(nil, &out)
	if err := r.readFile(path); err != nil {
		t.Fatal(err)
	}
	r.readAll(strings.NewReader(passed))
	if err := r.close(); err != nil || out.String() != "2 passed, 0 failed, 0 skipped\n" {
		t.Errorf("%v: %q", err, &out)
	}
	if err := r.readFile(path); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err == nil || !strings.Contains(out.String(), "q [tested twice]") {
		t.Errorf("a package tested twice: %v: %q", err, &out)
	}
}

func TestNoTestIsNoSuccess(t *testing.T) {
	if _, err := report1(t, "", `{"Action":"skip","Package":"p"}`); err == nil {
		t.Error("a run without a test was a success")
	}
}
