package seccomp

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependencies: the package is on the launch path, so nothing costly at
// start-up comes with it, and no C.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "golang.org/x/net/bpf") {
		t.Fatalf("control: %d dependencies without golang.org/x/net/bpf", len(deps))
	}
	for _, d := range deps {
		for _, bad := range []string{"github.com/opencontainers/", "github.com/seccomp/", "encoding/json", "net/http", "runtime/cgo"} {
			if d == strings.TrimSuffix(bad, "/") || strings.HasSuffix(bad, "/") && strings.HasPrefix(d, bad) {
				t.Errorf("imports %s", d)
			}
		}
	}
}
