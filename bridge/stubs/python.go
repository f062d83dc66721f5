package stubs

import (
	"bytes"
	_ "embed" // for the fixed part
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/errdef"
)

// The fixed part of the module, in this order.
var (
	//go:embed runtime_values.py
	pythonValues string
	//go:embed runtime_bells.py
	pythonBells string
	//go:embed runtime_calls.py
	pythonCalls string
	//go:embed runtime_tools.py
	pythonTools string
)

// param is one argument of a tool.
type param struct {
	raw, name string
	required  bool
	schema    *node
}

// python generates sbx_tools.py: the fixed run time, then a function a tool.
func python(tools []bridge.Tool) ([]byte, error) {
	raw := make([]string, len(tools))
	for i, t := range tools {
		raw[i] = t.Name
	}
	names := toolNames(raw)
	isRaw := map[string]bool{}
	for _, r := range raw {
		isRaw[r] = true
	}
	b := bytes.NewBufferString(pythonValues + pythonBells + pythonCalls + pythonTools)
	for i, t := range tools {
		if err := pythonTool(b, t, names[i]); err != nil {
			return nil, &errdef.Error{Code: errdef.Internal, Op: "stubs", Path: "tool " + t.Name, Err: err}
		}
	}
	if final := finalWait(tools); final > 0 {
		fmt.Fprintf(b, "\n\n_FINAL = %d.0\n", final)
	}
	b.WriteString("\n\n_RAW = [")
	for i, r := range raw {
		sep(b, i)
		b.WriteString(pyString(r))
	}
	b.WriteString("]\n# Python name -> the tool's own, where they differ.\n_NAMES = {")
	n := 0
	for i, r := range raw {
		// A name that is itself some tool's own always means that tool.
		if names[i] != r && !isRaw[names[i]] {
			sep(b, n)
			n++
			b.WriteString(pyString(names[i]) + ": " + pyString(r))
		}
	}
	b.WriteString("}\n__all__ = [")
	for i, name := range append(strings.Fields(pyExports), names...) {
		sep(b, i)
		b.WriteString(pyString(name))
	}
	b.WriteString("]\n")
	return b.Bytes(), nil
}

// finalWait returns how many seconds a call without a timeout waits for a reply
// that may be lost, where some tool takes long; 0 stands for the fixed part's.
func finalWait(tools []bridge.Tool) int64 {
	longest := time.Duration(0)
	for _, t := range tools {
		longest = max(longest, t.Timeout)
	}
	if longest < 5*time.Minute {
		return 0
	}
	return int64((2 * min(longest, time.Duration(math.MaxInt64)/2)).Seconds())
}

func sep(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteString(", ")
	}
}

// pythonTool writes one function:
//
//	@_tool('get-weather', {'from': 'from_'})
//	def get_weather(city: str, *, from_: str = _O('...'), **_sbx_more: Any) -> Any:
//	    """..."""
//	    return {'city': city, 'from': from_}, _sbx_more
func pythonTool(b *bytes.Buffer, t bridge.Tool, name string) error {
	root, err := parseOrdered(t.InputSchema)
	if err != nil {
		return err
	}
	result := "Any"
	if t.OutputSchema != nil {
		out, err := parseOrdered(t.OutputSchema)
		if err != nil {
			return err
		}
		result = newHints(out).of(out)
	}
	params, hints := paramsOf(root), newHints(root)
	b.WriteString("\n\n@_tool(" + pyString(t.Name))
	renamed := 0
	for _, p := range params {
		if p.name == p.raw {
			continue
		}
		if renamed++; renamed == 1 {
			b.WriteString(", {")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(pyString(p.raw) + ": " + pyString(p.name))
	}
	if renamed > 0 {
		b.WriteString("}")
	}
	b.WriteString(")\ndef " + name + "(")
	star := false
	for _, p := range params {
		if !p.required && !star {
			star = true
			b.WriteString("*, ")
		}
		b.WriteString(p.name + ": " + hints.of(p.schema))
		if !p.required {
			b.WriteString(" = " + omitted(p.schema))
		}
		b.WriteString(", ")
	}
	fmt.Fprintf(b, "**_sbx_more: Any) -> %s:\n    %s\n    return {", result, pyDoc(docOf(t, params, hints, result)))
	for i, p := range params {
		sep(b, i)
		b.WriteString(pyString(p.raw) + ": " + p.name)
	}
	b.WriteString("}, _sbx_more\n")
	return nil
}

// omitted returns the default of an optional parameter: it shows the schema's
// default but stands for "not sent".
func omitted(schema *node) string {
	if d := schema.get("default"); d != nil {
		if text := pyValue(d); len(text) <= maxHint {
			return "_O(" + pyString(text) + ")"
		}
	}
	return "_O()"
}

// paramsOf lists a tool's arguments, the required ones first, each group in the
// schema's order.
func paramsOf(root *node) []param {
	required := root.get("required").texts()
	props := root.get("properties")
	var list []param
	isRequired, listed := map[string]bool{}, map[string]bool{}
	for _, raw := range required {
		isRequired[raw] = true
	}
	add := func(raw string, must bool) {
		if isRequired[raw] == must && !listed[raw] {
			listed[raw] = true
			list = append(list, param{raw: raw, required: must, schema: props.get(raw)})
		}
	}
	var keys []string
	if props != nil {
		keys = props.keys
	}
	for _, k := range keys {
		add(k, true)
	}
	for _, k := range required {
		add(k, true)
	}
	for _, k := range keys {
		add(k, false)
	}
	raw := make([]string, len(list))
	for i := range list {
		raw[i] = list[i].raw
	}
	for i, name := range paramNames(raw) {
		list[i].name = name
	}
	return list
}

// docOf writes the docstring's text.
func docOf(t bridge.Tool, params []param, hints *hints, result string) string {
	var b strings.Builder
	b.WriteString(t.Description)
	if t.Description == "" {
		b.WriteString("Calls the tool " + t.Name + ".")
	}
	if len(params) > 0 {
		b.WriteString("\n\nArgs:")
	}
	for _, p := range params {
		b.WriteString("\n    " + p.name + " (" + hints.of(p.schema))
		if !p.required {
			b.WriteString(", optional")
		}
		if d := p.schema.get("default"); d != nil {
			b.WriteString(", default " + pyValue(d))
		}
		b.WriteString(")")
		if text := p.schema.get("description").text(); text != "" {
			b.WriteString(": " + strings.ReplaceAll(text, "\n", "\n        "))
		}
		if p.name != p.raw {
			b.WriteString(" [sent as " + p.raw + "]")
		}
	}
	if result != "Any" {
		b.WriteString("\n\nReturns:\n    " + result)
	}
	return b.String()
}
