package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/runtime"
)

const specification = "docs/SPECIFICATION.md"

// testNames returns all "folder.Test" names of the tree, and "folder.Test/x" for
// the scripts of a folder's testdata.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	textFiles(t, func(path, text string) {
		switch {
		case strings.HasSuffix(path, "_test.go"):
			for _, m := range decl.FindAllStringSubmatch(text, -1) {
				names[filepath.Dir(path)+"."+m[1]] = true
			}
		case strings.HasSuffix(path, ".txtar"):
			dir := filepath.Dir(filepath.Dir(path))
			names[dir+".TestScripts/"+strings.TrimSuffix(filepath.Base(path), ".txtar")] = true
		}
	})
	return names
}

// claims returns the test names in backquotes, and the promises that have
// neither a name nor the word pending.
func claims(text string) (named, empty []string) {
	name := regexp.MustCompile("`([a-z][a-z0-9/]*\\.(?:Test|Fuzz)[A-Z][\\w/]*)`")
	row := regexp.MustCompile(`(?m)^\| (\d+\.\d+) \|.*$`)
	for _, m := range name.FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		if !name.MatchString(m[0]) && !strings.Contains(m[0], "**pending**") && !strings.Contains(m[0], "`make test`") {
			empty = append(empty, m[1])
		}
	}
	return named, empty
}

// TestSpecificationNamesRealTests keeps the document from lying.
func TestSpecificationNamesRealTests(t *testing.T) {
	known := testNames(t)
	named, empty := claims(read(t, specification))
	for _, n := range named {
		if !known[n] {
			t.Errorf("%s: held by %s, which does not exist", specification, n)
		}
	}
	for _, p := range empty {
		t.Errorf("%s: promise %s has no test and is not pending", specification, p)
	}
	if len(named) < 100 {
		t.Errorf("only %d names found", len(named))
	}
}

func TestClaims(t *testing.T) {
	named, empty := claims("| 1.1 | a | `p/q.TestX`, `p.TestScripts/y` |\n| 1.2 | b | nobody |\n| 1.3 | c | **pending** |\n")
	if !slices.Equal(named, []string{"p/q.TestX", "p.TestScripts/y"}) || !slices.Equal(empty, []string{"1.2"}) {
		t.Errorf("%q %q", named, empty)
	}
}

func mib(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }

func count[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// TestLimitsTable compares the table of defaults with the code.
func TestLimitsTable(t *testing.T) {
	p := runtime.NewPolicy("true")
	l := p.Limits
	want := map[string]string{
		"memory, page cache and tmpfs included; swap 0": mib(l.Memory),
		"processors":                           strconv.FormatFloat(l.CPUs, 'f', -1, 64),
		"processes and threads":                count(l.Pids),
		"wall-clock time":                      seconds(l.Timeout),
		"bytes in /workspace":                  mib(l.WorkspaceBytes),
		"inodes in /workspace":                 count(l.WorkspaceInodes),
		"bytes in /tmp":                        mib(l.TmpBytes),
		"inodes in /tmp":                       count(l.TmpInodes),
		"bytes in /dev/shm":                    mib(l.ShmBytes),
		"inodes in /dev/shm":                   count(l.ShmInodes),
		"bytes of each output stream":          mib(l.OutputBytes),
		"open files of a process":              count(l.OpenFiles),
		"bytes of each fetched file":           mib(l.FileBytes),
		"tool calls":                           count(p.Bridge.MaxCalls),
		"tool calls at once":                   count(p.Bridge.Concurrency),
		"time of a tool call":                  seconds(p.Bridge.ToolTimeout),
		"bytes of a request":                   mib(bridge.DefaultRequest),
		"bytes of a result in a reply":         mib(bridge.DefaultReply),
		"bytes of a result":                    mib(bridge.DefaultResult),
		"bytes of replies that nobody fetched": mib(bridge.DefaultReplyQuota),
		"nesting of a request":                 count(bridge.DefaultDepth),
		"JSON values in a request":             count(bridge.DefaultNodes),
		"refused requests":                     count(bridge.DefaultFlood),
	}
	_, table, _ := strings.Cut(read(t, specification), "| limit | flag | default |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[1:] {
		f := strings.Split(strings.Trim(line, "| "), " | ")
		if len(f) != 3 {
			t.Fatalf("not a row: %q", line)
		}
		if f[2] != want[f[0]] {
			t.Errorf("%s: the document says %s, the code %s", f[0], f[2], want[f[0]])
		}
		delete(want, f[0])
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

// documents are the Markdown files of the tree.
func documents(t *testing.T, f func(path, text string)) {
	textFiles(t, func(path, text string) {
		if strings.HasSuffix(path, ".md") {
			f(path, text)
		}
	})
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	documents(t, func(path, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// TestDocumentsNameRealTargetsAndFlags: "make x" is a target of the Makefile, and
// "--flag" stands in the manual page, which a test of the command checks.
func TestDocumentsNameRealTargetsAndFlags(t *testing.T) {
	makefile, page := read(t, "Makefile"), read(t, "docs/man/sbxrun.1")
	target := regexp.MustCompile("(?m)(?:^|`|sudo )make ([a-z][a-z-]*)")
	flag := regexp.MustCompile(`(?:^|[\s` + "`" + `(])--([a-z][a-z-]+)`)
	code := regexp.MustCompile("(?s)```[a-z]*\n.*?```|`[^`\n]+`")
	documents(t, func(path, text string) {
		for _, c := range code.FindAllString(text, -1) {
			for _, m := range target.FindAllStringSubmatch(strings.Trim(c, "`"), -1) {
				if !strings.Contains(makefile, "\n"+m[1]+":") {
					t.Errorf("%s: the Makefile has no target %q", path, m[1])
				}
			}
			if !strings.Contains(c, "sbxrun") && !strings.HasPrefix(c, "`--") {
				continue
			}
			for _, m := range flag.FindAllStringSubmatch(c, -1) {
				if !strings.Contains(page, "Fl -"+m[1]) && m[1] != "unshare-all" {
					t.Errorf("%s: %q: the manual page has no --%s", path, c, m[1])
				}
			}
		}
	})
}
