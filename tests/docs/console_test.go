package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// example is one command of a ```console block and what it must print. In the
// expected text, "..." at the start of a line stands for anything before the rest.
type example struct {
	line    int
	command string
	want    []string
}

func examples(text string) (found []example) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			found = append(found, example{line: i + 1, command: line[2:]})
		case len(found) > 0:
			last := &found[len(found)-1]
			last.want = append(last.want, line)
		}
	}
	return found
}

func matches(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if rest, ok := strings.CutPrefix(want[i], "..."); ok {
			if !strings.HasSuffix(got[i], rest) {
				return false
			}
		} else if got[i] != want[i] {
			return false
		}
	}
	return true
}

// TestConsoleExamples runs the examples of each document in order, in one empty
// directory with bin/sbxrun in it.
func TestConsoleExamples(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root")
	}
	bin := binary(t)
	total := 0
	for _, doc := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/design.md", "docs/SPECIFICATION.md"} {
		text, err := os.ReadFile(filepath.Join(root, doc))
		if err != nil {
			t.Fatal(err)
		}
		found := examples(string(text))
		total += len(found)
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(bin, filepath.Join(dir, "bin/sbxrun")); err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			t.Run(fmt.Sprintf("%s:%d", doc, e.line), func(t *testing.T) { runExample(t, dir, e) })
		}
	}
	if total < 10 {
		t.Errorf("only %d examples found", total)
	}
}

// binary returns the sbxrun of this tree; in tests/vm, where a build takes long,
// one that was built beforehand.
func binary(t *testing.T) string {
	if bin := os.Getenv("SBXRUN_TEST_BINARY"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "sbxrun")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", bin, root+"/cmd/sbxrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func runExample(t *testing.T, dir string, e example) {
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(e.command, "sudo ", "")) // root already
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // what a failure prints is compared too
	var got []string
	if text := strings.TrimSuffix(string(out), "\n"); text != "" {
		got = strings.Split(text, "\n")
	}
	if !matches(got, e.want) {
		t.Errorf("$ %s\nprinted:\n%s\nthe document says:\n%s", e.command, strings.Join(got, "\n"), strings.Join(e.want, "\n"))
	}
}

func TestMatches(t *testing.T) {
	if !matches([]string{"a", "12 b"}, []string{"a", "... b"}) || matches([]string{"a"}, nil) ||
		matches([]string{"a"}, []string{"b"}) || matches([]string{"c"}, []string{"...b"}) {
		t.Error("matches does not tell lines apart")
	}
}
