package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rawCalls are the packages that may import golang.org/x/sys/unix or make
// system calls by number, with the reason. Wrappers retry EINTR and carry
// operation and path; nobody else should have to remember that.
var rawCalls = map[string]string{
	"internal/sys":              "the wrappers",
	"cmd/sbxrun/internal/probe": "it plays the attacker inside a sandbox, and attackers use no wrapper",
}

// goSource is one parsed file of the tree that is no test.
type goSource struct {
	path, dir string
	set       *token.FileSet
	file      *ast.File
}

func (s *goSource) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

func goSources(t *testing.T, f func(*goSource)) {
	t.Helper()
	textFiles(t, func(path, text string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		f(&goSource{path, filepath.Dir(path), set, file})
	})
}

// rawCall finds what the rule is about in one file.
func rawCall(s *goSource) (found []string) {
	for _, imp := range s.file.Imports {
		if strings.HasPrefix(strings.Trim(imp.Path.Value, `"`), "golang.org/x/sys/") {
			found = append(found, s.at(imp)+": imports "+imp.Path.Value)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "syscall" &&
			(strings.HasPrefix(sel.Sel.Name, "RawSyscall") || strings.HasPrefix(sel.Sel.Name, "Syscall") && sel.Sel.Name != "SysProcAttr") {
			found = append(found, s.at(n)+": calls syscall."+sel.Sel.Name)
		}
		return true
	})
	return found
}

func TestOnlyOnePackageMakesRawSystemCalls(t *testing.T) {
	used := map[string]bool{}
	goSources(t, func(s *goSource) {
		for _, f := range rawCall(s) {
			used[s.dir] = true
			if rawCalls[s.dir] == "" {
				t.Errorf("%s; only internal/sys may", f)
			}
		}
	})
	for dir := range rawCalls {
		if !used[dir] {
			t.Errorf("%s makes no raw system call any more: take it off the list", dir)
		}
	}
}

// startUpWork finds init functions and package-level values that are compiled
// or parsed when the program starts: an embedding host pays for them, and the
// command at each of its starts.
func startUpWork(s *goSource) (found []string) {
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				found = append(found, s.at(d)+": func init()")
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				for _, v := range spec.(*ast.ValueSpec).Values {
					ast.Inspect(v, func(n ast.Node) bool {
						if _, ok := n.(*ast.FuncLit); ok {
							return false // runs when it is called
						}
						if sel, ok := n.(*ast.SelectorExpr); ok {
							if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "regexp" || x.Name == "template") && strings.HasPrefix(sel.Sel.Name, "Must") {
								found = append(found, s.at(n)+": package-level "+x.Name+"."+sel.Sel.Name)
							}
						}
						return true
					})
				}
			}
		}
	}
	return found
}

func TestNothingRunsAtStartUp(t *testing.T) {
	goSources(t, func(s *goSource) {
		for _, f := range startUpWork(s) {
			t.Error(f)
		}
	})
}

// TestRulesNotice is the positive control of the rules above.
func TestRulesNotice(t *testing.T) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "x.go", `package x
import "golang.org/x/sys/unix"
var a, b = 1, regexp.MustCompile("x")
var ok = func() any { return regexp.MustCompile("x") }
func init() {}
func f() { syscall.RawSyscall6(1, 0, 0, 0, 0, 0, 0); syscall.Syscall(1, 0, 0, 0); syscall.Getpid() }
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := &goSource{"x.go", ".", set, file}
	if got := rawCall(s); len(got) != 3 {
		t.Errorf("raw calls: %q", got)
	}
	if got := startUpWork(s); len(got) != 2 {
		t.Errorf("start-up work: %q", got)
	}
}

// homes are the places where developers and CI machines keep their checkouts.
func homes() *regexp.Regexp {
	return regexp.MustCompile(`(^|[\s"'=:(])(/(home|Users)/[a-z]|/root/[a-zA-Z]|/work/[a-z]|/builds/[a-z]|/tmp/go-build)`)
}

func TestNoPathOfADevelopersMachine(t *testing.T) {
	re := homes()
	for text, want := range map[string]bool{"cd /home/ann/x": true, `"/builds/x"`: true, "/proc/1/root/": false, "./work/x": false} {
		if re.MatchString(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	textFiles(t, func(path, text string) {
		if strings.HasPrefix(path, "tests/lint/") {
			return
		}
		for i, line := range strings.Split(text, "\n") {
			if re.MatchString(line) {
				t.Errorf("%s:%d: %s", path, i+1, strings.TrimSpace(line))
			}
		}
	})
}

// TestToolchainIsPinned: scripts/deps.sh installs the toolchain that go.mod asks
// for, so its hashes must be there.
func TestToolchainIsPinned(t *testing.T) {
	m := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod has no go line")
	}
	sums := read(t, "scripts/toolchain.sum")
	for _, arch := range []string{"amd64", "arm64"} {
		version := "golang.org/toolchain v0.0.1-go" + m[1] + ".linux-" + arch
		for _, line := range []string{version + " h1:", version + "/go.mod h1:"} {
			if !strings.Contains(sums, line) {
				t.Errorf("scripts/toolchain.sum has no %q", line)
			}
		}
	}
}
