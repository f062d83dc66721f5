package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

// maxToolsFile bounds a tools file in bytes: hundreds of tools with long
// schemas fit.
const maxToolsFile = 16 << 20

// LoadToolsFile reads the tools from a file of the form
//
//	{"tools":[{"name":"get-weather","description":TEXT,"inputSchema":{...},
//	  "outputSchema":{...}?,"command":["weather","--json"],"timeout":"10s"?,
//	  "maxCalls":N?,"concurrency":N?,"env":{...}?}]}
//
// An unknown key, a duplicate name or a broken schema is an error (code
// errdef.Invalid) that names the tool and the field. A relative command path is
// resolved against the file's folder; a bare name that is not there is looked up
// in PATH.
func LoadToolsFile(path string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &errdef.Error{Code: errdef.NotFound, Op: "tools", Path: path, Msg: "cannot be read", Err: err}
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: path, Msg: "must be a regular file", Err: err}
	}
	if st.Size() > maxToolsFile {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: path,
			Msg: fmt.Sprintf("the tools file (--tools) has %d bytes, at most %d", st.Size(), maxToolsFile)}
	}
	raw := make([]byte, st.Size())
	n, err := f.ReadAt(raw, 0)
	if err != nil && n == 0 && len(raw) > 0 {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: path, Msg: "cannot be read", Err: err}
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: path, Err: err}
	}
	tools, err := parseTools(raw[:n], folder)
	if err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: path, Err: err}
	}
	set, err := NewSet(tools)
	if err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: path, Err: err}
	}
	return set, nil
}

// fields decodes one object and checks that it has no other keys than allowed.
// encoding/json alone would take "Name" for "name".
func fields(raw json.RawMessage, what string, allowed ...string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, fmt.Errorf("%s: must be an object", what)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(allowed, k) {
			return nil, fmt.Errorf("%s: unknown field %s (allowed: %s)", what, quote(k), strings.Join(allowed, " "))
		}
	}
	return m, nil
}

// parseTools turns the text of a tools file into tools.
func parseTools(raw []byte, folder string) ([]Tool, error) {
	if err := checkJSON(raw, maxSchemaDepth, maxSchemaNodes*10); err != nil {
		return nil, err
	}
	top, err := fields(raw, "the file", "tools")
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(top["tools"], &list); err != nil || list == nil {
		return nil, fmt.Errorf(`field "tools": must be a list`)
	}
	tools := make([]Tool, 0, len(list))
	for i, item := range list {
		t, err := parseTool(item, i, folder)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

func parseTool(raw json.RawMessage, i int, folder string) (Tool, error) {
	what := fmt.Sprintf("tools[%d]", i)
	m, err := fields(raw, what, "name", "description", "inputSchema", "outputSchema",
		"command", "timeout", "maxCalls", "concurrency", "env")
	if err != nil {
		return Tool{}, err
	}
	var t Tool
	if err := field(m, what, "name", "a text", &t.Name); err != nil {
		return Tool{}, err
	}
	what = "tool " + quote(t.Name)
	var argv []string
	var timeout string
	var env map[string]string
	for _, f := range []struct {
		name, form string
		into       any
	}{
		{"description", "a text", &t.Description},
		{"command", "a list of texts", &argv},
		{"timeout", `a duration such as "10s"`, &timeout},
		{"maxCalls", "a whole number from 1", &t.MaxCalls},
		{"concurrency", "a whole number from 1", &t.Concurrency},
		{"env", "an object of texts", &env},
	} {
		if err := field(m, what, f.name, f.form, f.into); err != nil {
			return Tool{}, err
		}
	}
	for name, n := range map[string]int{"maxCalls": t.MaxCalls, "concurrency": t.Concurrency} {
		if _, given := m[name]; given && n < 1 {
			return Tool{}, fmt.Errorf("%s: field %q: must be a whole number from 1", what, name)
		}
	}
	if _, given := m["timeout"]; given {
		if t.Timeout, err = time.ParseDuration(timeout); err != nil || t.Timeout <= 0 {
			return Tool{}, fmt.Errorf(`%s: field "timeout": must be a positive duration such as "10s"`, what)
		}
	}
	t.InputSchema, t.OutputSchema = m["inputSchema"], m["outputSchema"]
	if t.InputSchema == nil {
		return Tool{}, fmt.Errorf(`%s: field "inputSchema": is missing`, what)
	}
	if argv, err = resolveCommand(argv, folder); err != nil {
		return Tool{}, fmt.Errorf(`%s: field "command": %w`, what, err)
	}
	h, err := newCommand(argv, env)
	if err != nil {
		return Tool{}, fmt.Errorf("%s: %w", what, err)
	}
	t.Handler = h
	return t, nil
}

// field decodes one member, if it is there.
func field(m map[string]json.RawMessage, what, name, form string, into any) error {
	raw, ok := m[name]
	if !ok {
		return nil
	}
	if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		return fmt.Errorf("%s: field %q: must be %s", what, name, form)
	}
	return nil
}

// resolveCommand makes the program's path absolute and checks that it is there.
func resolveCommand(argv []string, folder string) ([]string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, fmt.Errorf("must name a program")
	}
	prog := argv[0]
	if !filepath.IsAbs(prog) {
		prog = filepath.Join(folder, prog)
	}
	found, err := exec.LookPath(prog)
	if err != nil && !strings.Contains(argv[0], "/") {
		found, err = exec.LookPath(argv[0])
	}
	if err != nil {
		return nil, fmt.Errorf("program %s: not found or not executable", quote(argv[0]))
	}
	return append([]string{found}, argv[1:]...), nil
}
