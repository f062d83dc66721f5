// Command gotest runs `go test -json` with its own arguments, prints the output
// of what failed and go test's closing line of every package, and ends with
//
//	N passed, N failed, N skipped
//
// Events of other runs, of packages that were tested in another place, come from
// files before go test's arguments (-events FILE); all are counted together. A
// package that is on both sides is a mistake, and fails.
//
// A skipped test is a failure unless scripts/allowed-skips.txt names it with the
// reason: on CI and on a developer's machine alike, a test that could not look
// has proven nothing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: gotest ALLOWED-SKIPS [-events FILE]... GO-TEST-ARGUMENT...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

func run(allowedFile string, args []string, out io.Writer) error {
	allowed, err := readAllowed(allowedFile)
	if err != nil {
		return err
	}
	r := newReport(allowed, out)
	for len(args) > 1 && args[0] == "-events" {
		if err := r.readFile(args[1]); err != nil {
			return err
		}
		args = args[2:]
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.readAll(pipe)
	if err := cmd.Wait(); err != nil && r.failed == 0 {
		return fmt.Errorf("go test: %w", err)
	}
	return r.close()
}

// readAllowed reads lines of "PACKAGE TEST REASON"; the package is relative to
// the module.
func readAllowed(path string) (map[string]bool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	allowed := map[string]bool{}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("%s:%d: expected PACKAGE TEST REASON", path, i+1)
		}
		allowed[f[0]+" "+f[1]] = true
	}
	return allowed, nil
}

type report struct {
	allowed map[string]bool
	out     io.Writer
	output  map[string][]string // of tests that have not passed, by "package test"
	broken  map[string]bool     // packages with a failed test
	bad     []string            // skips that nobody allowed
	tested  map[string]bool     // packages that have come to an end

	passed, failed, skipped int
}

func newReport(allowed map[string]bool, out io.Writer) *report {
	return &report{allowed: allowed, out: out, output: map[string][]string{}, broken: map[string]bool{}, tested: map[string]bool{}}
}

func (r *report) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r.readAll(f)
	return nil
}

func (r *report) readAll(in io.Reader) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *report) take(e event) {
	key := e.Package + " " + e.Test
	if e.Test == "" && (e.Action == "pass" || e.Action == "fail") {
		if r.tested[e.Package] {
			fmt.Fprintf(r.out, "FAIL\t%s [tested twice]\n", e.Package)
			r.failed++
		}
		r.tested[e.Package] = true
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		fmt.Fprintf(r.out, "FAIL\t%s [build failed]\n", e.ImportPath)
	case "output":
		if e.Test == "" && isClosing(e.Output) {
			fmt.Fprint(r.out, e.Output)
			return
		}
		r.output[key] = append(r.output[key], e.Output)
	case "pass":
		delete(r.output, key)
		if e.Test != "" {
			r.passed++
		}
	case "fail":
		r.fail(e, key)
	case "skip":
		if e.Test != "" {
			r.skip(e, key)
		}
		delete(r.output, key)
	}
}

// isClosing tells go test's own line about a package.
func isClosing(line string) bool {
	for _, prefix := range []string{"ok  \t", "FAIL\t", "?   \t", "---\t"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// fail counts a failed test, and a failed package only where no test in it has
// failed: it was not built, or it panicked or exited.
func (r *report) fail(e event, key string) {
	if e.Test != "" || !r.broken[e.Package] {
		r.failed++
	}
	r.broken[e.Package] = true
	r.print(key)
}

func (r *report) skip(e event, key string) {
	r.skipped++
	top, _, _ := strings.Cut(e.Test, "/")
	rel := "."
	if _, after, ok := strings.Cut(e.Package, "github.com/sbxrun/sbxrun/"); ok {
		rel = after
	}
	if r.allowed[rel+" "+e.Test] || r.allowed[rel+" "+top] {
		return
	}
	r.bad = append(r.bad, rel+" "+e.Test)
	r.print(key)
}

func (r *report) print(key string) {
	for _, s := range r.output[key] {
		fmt.Fprint(r.out, s)
	}
	delete(r.output, key)
}

// close prints what never came to an end and the summary.
func (r *report) close() error {
	if r.failed > 0 {
		keys := make([]string, 0, len(r.output))
		for k := range r.output {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			r.print(k)
		}
	}
	for _, s := range r.bad {
		fmt.Fprintf(r.out, "skipped, and not in the list of allowed skips: %s\n", s)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed+len(r.bad), r.skipped)
	if n := r.failed + len(r.bad); n > 0 {
		return fmt.Errorf("%d failed", n)
	}
	if r.passed == 0 {
		return fmt.Errorf("no test was run")
	}
	return nil
}
