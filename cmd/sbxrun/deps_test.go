package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbiddenPackages must not be linked into the command, each for its reason.
// A name that ends in "/..." stands for all below it too. The costs are what
// GODEBUG=inittrace=1 shows, or what the binary grows by.
var forbiddenPackages = map[string]string{
	"net/http":                         "0.4 ms of start-up and 3 MB, and a second way to the network",
	"crypto/tls":                       "0.3 ms of start-up and 2 MB; nothing here speaks TLS",
	"crypto/x509":                      "0.3 ms of start-up; nothing here has certificates",
	"encoding/xml":                     "0.1 ms of start-up; nothing here is XML",
	"encoding/gob":                     "0.2 ms of type registration at start-up",
	"html/template":                    "0.4 ms of start-up, and it disables dead code elimination",
	"go/parser":                        "stubs are generated from data, not from Go source",
	"testing":                          "registers flags",
	"expvar":                           "starts with net/http",
	"plugin":                           "needs cgo, keeps every exported method",
	"database/sql":                     "there is no database",
	"mime/multipart":                   "comes with net/http only",
	"os/user":                          "cgo, and the host's users say nothing about a sandbox",
	"golang.org/x/net/http2":           "comes with net/http only",
	"google.golang.org/protobuf/...":   "registration at start-up",
	"google.golang.org/grpc/...":       "registration at start-up, and net/http",
	"github.com/sirupsen/logrus":       "start-up; messages are one line on standard error",
	"github.com/godbus/dbus/...":       "a socket to the host's system bus",
	"github.com/coreos/go-systemd/...": "comes with dbus",
	"github.com/opencontainers/cgroups/systemd":  "comes with dbus",
	"github.com/opencontainers/runc/...":         "cgo constructor that every embedding program would run",
	"github.com/seccomp/libseccomp-golang":       "cgo; filters are compiled ahead of time",
	"github.com/modelcontextprotocol/go-sdk/...": "belongs into a command of its own, sbxrun-mcp",
	"github.com/google/jsonschema-go/...":        "0.25 ms of start-up; only hosts that offer Go functions need it (bridge/gofunc)",
	"github.com/google/go-cmp/...":               "for tests only",
	"github.com/rogpeppe/go-internal/...":        "for tests only",
}

func TestForbiddenPackages(t *testing.T) {
	for _, dep := range listDeps(t) {
		for name, reason := range forbiddenPackages {
			tree, isTree := strings.CutSuffix(name, "/...")
			if dep == tree || isTree && strings.HasPrefix(dep, tree+"/") {
				t.Errorf("sbxrun links %s: %s; \"go mod why -m\" tells who imports it", dep, reason)
			}
		}
	}
}

func listDeps(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// TestNoInitFunctions holds that nothing of the command runs before main.
func TestNoInitFunctions(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	work := regexp.MustCompile(`(?m)^func init\(\)|^var \w+ += +(regexp\.MustCompile|template\.Must)`)
	for _, f := range append(files, inner...) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		if m := work.FindString(readFile(t, f)); m != "" {
			t.Errorf("%s: %q costs every start", f, m)
		}
	}
}
