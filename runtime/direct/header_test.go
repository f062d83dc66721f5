package direct

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func source(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("launcher", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func number(t *testing.T, text, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s", pattern)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The protocol's numbers are the same on both sides.
func TestProtocolEqualsHeader(t *testing.T) {
	h := source(t, "launcher.h")
	for name, want := range map[string]int{"MAX_FDS": maxFDs, "MAX_SLOTS": maxSlots, "MAX_EXPORT": maxExport} {
		if got := number(t, h, `#define `+name+` (\d+)`); got != want {
			t.Errorf("%s: %d in C, %d in Go", name, got, want)
		}
	}
	g, err := os.ReadFile("launcher.go")
	if err != nil {
		t.Fatal(err)
	}
	for prefix, kind := range map[string]string{"req": "request", "rep": "report"} {
		inGo := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^\t`+prefix+`(\w+)\s+`+kind+`Type = (\d+)`).FindAllStringSubmatch(string(g), -1) {
			inGo[strings.ToUpper(prefix+"_"+m[1])] = m[2]
		}
		inC := map[string]string{}
		for _, m := range regexp.MustCompile(`(`+strings.ToUpper(prefix)+`_\w+) = (\d+)`).FindAllStringSubmatch(h, -1) {
			inC[m[1]] = m[2]
		}
		if d := cmp.Diff(inC, inGo); d != "" || len(inC) < 3 {
			t.Errorf("types of a %s (- C, + Go):\n%s", kind, d)
		}
	}
	for name, want := range map[string]int{"request": requestSize, "report": reportSize} {
		body := regexp.MustCompile(`struct ` + name + ` \{([^}]*)\}`).FindStringSubmatch(h)[1]
		fields := regexp.MustCompile(`(?m)^\s+[us]32 \w+;`).FindAllString(body, -1)
		if 4*len(fields) != want {
			t.Errorf("struct %s: %d fields of 4 bytes, %d bytes in Go", name, len(fields), want)
		}
	}
}

// The embedded launchers are what build.sh makes of the sources.
func TestEmbeddedLauncherIsReproducible(t *testing.T) {
	for _, cc := range []string{"x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"} {
		if _, err := exec.LookPath(cc); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("needs %s", cc)
			}
			t.Skipf("needs %s", cc)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("launcher/build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		got, err := os.ReadFile(filepath.Join(dir, "launcher-"+arch))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("embedded/launcher-" + arch)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("embedded/launcher-%s is not built from these sources (go generate ./runtime/direct)", arch)
		}
		if len(want) > 64<<10 {
			t.Errorf("launcher-%s has %d bytes", arch, len(want))
		}
	}
}
