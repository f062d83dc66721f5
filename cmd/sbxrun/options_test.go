package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// noLimits are the words and numbers that other tools take for "unlimited".
var noLimits = []string{"unlimited", "none", "max", "infinity", "-1", "0", "", "Unlimited", "inf"}

// limitFlags are the options that are limits, with an allowed value that the
// error has to mention and further wrong values of their kind.
var limitFlags = map[string]struct {
	allowed string
	bad     []string
}{
	"memory":           {"8M to 1024T", []string{"1.5G", "1GB", "10", "9999T", "x", "99999999999999999999", "1 G"}},
	"cpus":             {"0.01 to 4096", []string{"1e3", "0.0", "0.001", "5000", "x", "0x1", "1,5"}},
	"pids":             {"1 to 32768", []string{"1K", "99999", "1.5", "x"}},
	"timeout":          {"1ms to 168h", []string{"30", "0s", "-5s", "1us", "999h", "x", "5 s"}},
	"workspace-size":   {"4K to 1024T", []string{"1", "x", "1MB"}},
	"tmp-size":         {"4K to 1024T", []string{"1", "x"}},
	"output-limit":     {"1 to 1T", []string{"2T", "x", "1.5M"}},
	"open-files":       {"16 to 1048576", []string{"3", "1K", "9999999"}},
	"tool-timeout":     {"1ms to 168h", []string{"30", "999h", "x"}},
	"tool-concurrency": {"1 to 1024", []string{"1025", "x"}},
}

func TestNoLimitIsUnlimited(t *testing.T) {
	for name, limit := range limitFlags {
		for _, text := range append(append([]string{}, noLimits...), limit.bad...) {
			t.Run(name+"="+text, func(t *testing.T) {
				for _, args := range [][]string{
					{"do", "--" + name, text, "--", "true"},
					{"do", "--" + name + "=" + text, "--", "true"},
					{"explain", "--" + name + "=" + text, "--", "true"},
				} {
					line := checkRefusal(t, runCommand(t, args...))
					if want := "sbxrun: " + args[0] + ": --" + name + ": "; !strings.HasPrefix(line, want) {
						t.Errorf("%q does not start with %q", line, want)
					}
					if want := "(allowed: " + limit.allowed; !strings.Contains(line, want) {
						t.Errorf("%q does not say %q", line, want)
					}
				}
			})
		}
	}
}

func TestMaxToolCallsTakesZero(t *testing.T) {
	for _, text := range []string{"unlimited", "none", "max", "infinity", "-1", "", "9999999", "x"} {
		line := checkRefusal(t, runCommand(t, "do", "--max-tool-calls", text, "--", "true"))
		if !strings.Contains(line, "--max-tool-calls: ") || !strings.Contains(line, "(allowed: 0 (no call at all) to ") {
			t.Errorf("%q: %s", text, line)
		}
	}
	if r := runCommand(t, "explain", "--max-tool-calls", "0", "--", "true"); r.status != 0 {
		t.Errorf("0 tool calls were refused: %s", r.errout)
	}
}

// badValues has, for every other option, values of each wrong kind and what the
// error says about them.
func badValues(t *testing.T) map[string]map[string]string {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, at("file"), "x")
	for _, err := range []error{
		os.Mkdir(at("dir"), 0o755),
		os.Symlink(at("file"), at("link")),
		unix.Mkfifo(at("fifo"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, at("bad.json"), `{"memory": "0"}`)
	const notFile = ", not a regular file"
	return map[string]map[string]string{
		"rootfs": {"": "empty", at("nope"): "no such file", at("file"): "is a regular file, not a folder",
			"oci:x:y": "not in this version"},
		"file": {"": "empty", at("nope"): "no such file", at("link"): "is a symbolic link" + notFile,
			at("fifo"): "is a FIFO" + notFile, "/dev/null": "is a device" + notFile, at("dir"): "is a folder" + notFile,
			at("file") + ":": "no path after", ":x": "no path before", at("file") + ":/etc/x": "not a file below /workspace",
			at("file") + ":../x": "not a file below /workspace", at("file") + ":.bridge/x": "belongs to the tool channel",
			at("file") + ":x/": "not a file below"},
		"out": {"": "empty", "x:" + at("link"): "is a symbolic link" + notFile, "x:" + at("fifo"): "is a FIFO" + notFile,
			"x:/dev/null": "is a device" + notFile, "x:" + at("dir"): "is a folder" + notFile,
			"x:" + at("nope/x"): "no such file", "x:": "no path after", "/etc/x": "not a file below /workspace",
			"x:" + at("file/x"): "not a directory"},
		"bind-ro": {"": "empty", at("nope"): "no such file", "/usr:rel": "not an absolute path", "/usr:": "no path after",
			"/usr:/proc/x": "lies below /proc", "/usr:/": "root itself", "/usr:/workspace/x": "lies below /workspace",
			"/proc:/opt/x": "shows the host's /proc", "/sys/fs:/opt/x": "shows the host's /sys", "/dev/../dev:/opt/x": "shows the host's /dev",
			"/:/opt/x": "shows the host's"},
		"output-overflow": {"": "empty", "drop": "not known", "DISCARD": "not known"},
		"env":             {"": "empty", "A": `has no "="`, "=x": "no name"},
		"cwd":             {"": "not an absolute path", "x": "not an absolute path", "/proc/self/fd/7": "lies below /proc"},
		"user": {"": "empty", "0": "is root", "1:0": "is root", "root": "not a numeric user id", "1:x": "not a numeric group id",
			"4294967295": "is more than", "-1": "not a numeric user id"},
		"hostname":  {"": "empty", "a b": "not a host name", "-a": "hyphen", strings.Repeat("a", 64): "longer than"},
		"stdin":     {"=maybe": "not known", "=": "empty"},
		"tty":       {"=true": "not in this version", "=maybe": "not known"},
		"net":       {"": "empty", "host": "not known", "restricted": "not in this version", "full": "not in this version"},
		"allow":     {"example.com": "not in this version"},
		"tools":     {"": "empty", at("nope"): "no such file", at("fifo"): "is a FIFO", at("bad.json"): "unknown field"},
		"tool":      {"": "empty", "x": `has no "="`, "=cat": "no name", "x=": "command is empty", "x='a": "not closed", "x=no-such-program": "not found", "a/b=cat": "bad name"},
		"seccomp":   {"": "empty", "off": "not known", "unconfined": "not known", "./p.json": "not in this version"},
		"isolation": {"": "empty", "gvisor": "not in this version", "none": "not known"},
		"profile": {at("nope"): "no such file", at("fifo"): "is a FIFO", at("dir"): "is a folder", at("file"): "invalid character",
			"/dev/zero": "is a device", at("bad.json"): "would mean no limit"},
		"result": {"": "empty", "0": "belongs to the program", "1": "belongs to the program", "2": "belongs to the program",
			"987": "not open", "99999999999999999999": "no descriptor", "-1": "no descriptor", at("link"): "is a symbolic link" + notFile, at("fifo"): "is a FIFO",
			"/dev/null": "is a device", at("dir"): "is a folder", at("nope/x"): "no such file"},
		"events": {"": "empty", "2": "belongs to the program", "987": "not open", at("link"): "symbolic link", at("fifo"): "FIFO",
			"/dev/null": "is a device", at("dir"): "is a folder", at("nope/x"): "no such file"},
		"label":     {"": "empty", "A": `has no "="`, "=x": "no name"},
		"state-dir": {"": "empty"},
	}
}

func TestEachFlagNamesWhatIsWrong(t *testing.T) {
	table := badValues(t)
	for _, o := range options(newRequest(nil)) {
		_, isLimit := limitFlags[o.name]
		if table[o.name] == nil && !isLimit && o.name != "max-tool-calls" {
			t.Errorf("--%s has no test of bad values", o.name)
		}
	}
	for name, values := range table {
		for text, want := range values {
			t.Run(name+" "+text, func(t *testing.T) {
				args := []string{"do", "--" + name, text, "--", "true"}
				if inline, ok := strings.CutPrefix(text, "="); ok && (name == "stdin" || name == "tty") {
					args = []string{"do", "--" + name + "=" + inline, "--", "true"}
				}
				line := checkRefusal(t, runCommand(t, args...))
				if !strings.Contains(line, want) {
					t.Errorf("%q does not say %q", line, want)
				}
				// A profile is named by its file, all others by the flag.
				if name != "profile" && !strings.Contains(line, "--"+name) {
					t.Errorf("%q does not name --%s", line, name)
				}
			})
		}
	}
}

func TestGivenTwice(t *testing.T) {
	for _, args := range [][]string{
		{"--file", "/etc/passwd:x", "--file", "/etc/hostname:./x"},
		{"--out", "x:/tmp/a", "--out", "./x:/tmp/b"},
		{"--out", "x:/tmp/a", "--out", "y:/tmp/a"},
		{"--bind-ro", "/usr:/x", "--bind-ro", "/usr:/x/"},
		{"--tool", "a=cat", "--tool", "a=tac"},
	} {
		line := checkRefusal(t, runCommand(t, append(append([]string{"do"}, args...), "--", "true")...))
		if !strings.Contains(line, args[0]+": ") || !strings.Contains(line, "twice") && !strings.Contains(line, "two files") {
			t.Errorf("%v: %s", args, line)
		}
	}
}

func TestUnknownWords(t *testing.T) {
	for _, c := range []struct{ args, want, hint string }{
		{"do --memroy 1G -- true", "--memroy: unknown flag", "did you mean --memory?"},
		{"do --MEMORY 1G -- true", "--MEMORY: unknown flag", "did you mean --memory?"},
		{"do --zzzzzz -- true", "--zzzzzz: unknown flag", "--help"},
		{"do -m 1G -- true", "-m: unknown flag", "long names only"},
		{"do --memory", "--memory: the value is missing", "write --memory SIZE"},
		{"do", "no program given", "--"},
		{"explain --format yaml -- true", `--format: "yaml" is not known (allowed: text, json, oci)`, ""},
		{"ddo", "ddo: unknown command", `did you mean "do"?`},
		{"sefltest", "sefltest: unknown command", `did you mean "selftest"?`},
		{"exec", "the OCI commands are not in this version", "sbxrun do"},
		{"check now", "now: unexpected argument", ""},
		{"check --jsn", "--jsn: unknown flag", "--json"},
		{"completion tcsh", "tcsh: unknown shell (allowed: bash, zsh, fish)", ""},
		{"completion", "SHELL: is missing (allowed: bash, zsh, fish)", ""},
		{"reap --json=x", `--json: "x" is not a valid value (allowed: true, false)`, ""},
		{"reap --state-dir=", "--state-dir: the value is empty", ""},
		{"--memory 1G", "--memory: unknown flag", ""},
		{"", "no command given", "--help"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := runCommand(t, strings.Fields(c.args)...)
			if line := checkRefusal(t, r); !strings.Contains(line, c.want) {
				t.Errorf("%q does not say %q", line, c.want)
			}
			if !strings.Contains(r.errout, c.hint) {
				t.Errorf("%q has no hint %q", r.errout, c.hint)
			}
		})
	}
}

func TestArgumentsThatTheKernelWouldNotTake(t *testing.T) {
	many := append([]string{"do", "--", "true"}, make([]string, 100_000)...)
	for args, want := range map[*[]string]string{
		&many: "100001 arguments (allowed: at most",
		{"do", "--env", "A=" + strings.Repeat("x", 2<<20), "--", "true"}: "2097154 bytes (allowed: at most",
		{"do", "--", "true", strings.Repeat("x", 200_000)}:               "200000 bytes (allowed: at most",
	} {
		if line := checkRefusal(t, runCommand(t, *args...)); !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	root := (&app{}).rootCommand()
	for _, c := range append(root.Commands(), root) {
		r := runCommand(t, append(strings.Fields(strings.TrimPrefix(c.CommandPath(), "sbxrun")), "--help")...)
		if r.status != 0 || r.errout != "" || !strings.Contains(r.out, "Examples:") {
			t.Errorf("%s --help: status %d, %q, %q", c.CommandPath(), r.status, r.out, r.errout)
		}
	}
}
