package plan

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func source(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// define returns the value of a #define.
func define(t *testing.T, text, name string) uint64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^#define ` + name + `\s+(\S+|\(.*?\))\s*(/\*.*)?$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no #define %s", name)
	}
	v := strings.TrimSuffix(m[1], "u")
	if base, shift, ok := strings.Cut(strings.Trim(v, "()"), "u << "); ok {
		b, _ := strconv.ParseUint(base, 0, 64)
		s, _ := strconv.ParseUint(shift, 0, 64)
		return b << s
	}
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// The operations have the same numbers and names in plan.h and here.
func TestOperationsEqualHeader(t *testing.T) {
	c := map[string]int{}
	for _, m := range regexp.MustCompile(`X\((\d+), (\w+)\)`).FindAllStringSubmatch(source(t, filepath.Join(launcherDir, "plan.h")), -1) {
		n, _ := strconv.Atoi(m[1])
		c[m[2]] = n
	}
	for _, m := range regexp.MustCompile(`(?m)^#define OP_(\w+) (0x\w+)`).FindAllStringSubmatch(source(t, filepath.Join(launcherDir, "launcher.h")), -1) {
		n, _ := strconv.ParseInt(m[2], 0, 32)
		c[m[1]] = int(n)
	}
	g := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\tOp(\w+)\s+Op = (\w+)`).FindAllStringSubmatch(source(t, "op.go"), -1) {
		n, _ := strconv.ParseInt(m[2], 0, 32)
		g[strings.ToUpper(m[1])] = int(n)
	}
	if len(c) < 30 {
		t.Fatalf("found %d operations in the header", len(c))
	}
	for name, n := range c {
		if g[name] != n {
			t.Errorf("%s: %d in C, %d in Go", name, n, g[name])
		}
		delete(g, name)
	}
	for name := range g {
		t.Errorf("%s: in Go only", name)
	}
}

func TestLimitsEqualHeader(t *testing.T) {
	h := source(t, filepath.Join(launcherDir, "plan.h"))
	for name, want := range map[string]uint64{
		"PLAN_MAGIC": magic, "PLAN_VERSION": version, "PLAN_MAX_SIZE": MaxSize,
		"PLAN_MAX_OPS": MaxOps, "PLAN_MAX_STR": MaxStrings,
	} {
		if got := define(t, h, name); got != want {
			t.Errorf("%s: %d in C, %d in Go", name, got, want)
		}
	}
}

// Every name is there, distinct, and fit for a record.
func TestOperationNames(t *testing.T) {
	seen := map[string]Op{}
	for _, m := range regexp.MustCompile(`(?m)^\tOp\w+\s+Op = (\w+)`).FindAllStringSubmatch(source(t, "op.go"), -1) {
		n, _ := strconv.ParseInt(m[1], 0, 32)
		op := Op(n)
		name := op.String()
		if !regexp.MustCompile(`^[a-z][a-z-]+[a-z]$`).MatchString(name) {
			t.Errorf("%d: %q", n, name)
		}
		if other, dup := seen[name]; dup {
			t.Errorf("%q is both %d and %d", name, other, op)
		}
		seen[name] = op
	}
	if got := Op(999).String(); got != "op-999" {
		t.Errorf("unknown: %q", got)
	}
}
