package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
)

// Call is one call of a tool, as its handler and the approval gate see it.
type Call struct {
	// Sandbox is the id of the sandbox (Config.SandboxID).
	Sandbox string
	// ID is the request's id, unique in the sandbox's life.
	ID string
	// Tool is the tool's name.
	Tool string
	// Args is the JSON object of the arguments, byte for byte as the program wrote
	// it, already checked against the tool's schema. Numbers keep their text; a
	// lone surrogate escape is preserved.
	Args json.RawMessage

	loneSurrogate bool
}

// LoneSurrogate reports whether some text of the arguments holds half of a
// surrogate pair as an escape, which a Go string cannot hold.
func (c Call) LoneSurrogate() bool { return c.loneSurrogate }

// Handler runs the calls of a tool. It is called from many goroutines at once.
//
// It returns one JSON value. A [*ToolError] in the error's chain reaches the
// program; of any other error the program learns only that the tool failed. The
// context ends at the call's deadline or when the sandbox does; a handler that
// ignores it is answered without (code timeout), keeps its slot of the tool's
// own concurrency, and its late result is dropped. A panic is answered `internal`.
type Handler interface {
	Call(ctx context.Context, c Call) (json.RawMessage, error)
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, c Call) (json.RawMessage, error)

// Call calls f.
func (f HandlerFunc) Call(ctx context.Context, c Call) (json.RawMessage, error) { return f(ctx, c) }

// Tool is what a sandboxed program may call.
type Tool struct {
	// Name follows MCP: 1 to 128 of A-Z a-z 0-9 _ - and dot.
	Name string
	// Description tells the model what the tool is for.
	Description string
	// InputSchema is the JSON Schema (draft-07 or 2020-12) of the arguments; its
	// type must be object. nil takes any object. Patterns are RE2, the dialect of
	// package regexp; a keyword that the bridge cannot check in bounded time
	// (unevaluated..., $dynamicRef, $anchor, $id inside) is refused by name.
	// Arguments that would cost more than about 20 ms to check are refused.
	InputSchema json.RawMessage
	// OutputSchema describes the result for the stubs; nil leaves it open. Results
	// are not checked against it.
	OutputSchema json.RawMessage
	// Timeout bounds one call; 0 means Config.ToolTimeout.
	Timeout time.Duration
	// MaxCalls bounds the calls of this tool in a run; 0 means that only the run's
	// own budget does.
	MaxCalls int
	// Concurrency bounds the calls of this tool that run at once in a sandbox; 0
	// means Config.Concurrency.
	Concurrency int
	// Handler runs the calls.
	Handler Handler
}

// Set is a validated list of tools with unique names. It is read-only and can
// serve any number of sandboxes at once.
type Set struct {
	tools   []Tool
	schemas []*schema
	index   map[string]int
	json    []byte
}

// anyObject is the schema of a tool that gave none.
const anyObject = `{"type":"object"}`

// NewSet checks the tools and resolves their schemas, once. Its errors have the
// code errdef.Invalid and name the tool.
func NewSet(tools []Tool) (*Set, error) {
	s := &Set{index: make(map[string]int, len(tools))}
	for i, t := range tools {
		bad := func(what string, err error) error {
			return &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: "tool " + quote(t.Name), Msg: what, Err: err}
		}
		if !validToolName(t.Name) {
			return nil, bad("bad name (allowed: 1 to 128 of A-Z a-z 0-9 _ - .)", nil)
		}
		if _, dup := s.index[t.Name]; dup {
			return nil, bad("the name is there twice", nil)
		}
		if t.Handler == nil {
			return nil, bad("has no handler", nil)
		}
		if t.Timeout < 0 || t.MaxCalls < 0 || t.Concurrency < 0 {
			return nil, bad("timeout, maxCalls and concurrency must not be negative", nil)
		}
		in, err := inputSchema(&t)
		if err != nil {
			return nil, bad("broken inputSchema", err)
		}
		if t.OutputSchema != nil {
			if _, err := compileSchema(t.OutputSchema); err != nil {
				return nil, bad("broken outputSchema", err)
			}
			t.OutputSchema = compact(t.OutputSchema)
		}
		s.index[t.Name] = i
		s.tools = append(s.tools, t)
		s.schemas = append(s.schemas, in)
	}
	var err error
	s.json, err = s.render()
	return s, err
}

// inputSchema compiles the input schema and completes it in the tool.
func inputSchema(t *Tool) (*schema, error) {
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(anyObject)
	}
	in, err := compileSchema(t.InputSchema)
	if err != nil {
		return nil, err
	}
	if in.root.types != typeObject {
		return nil, fmt.Errorf(`its "type" must be "object"`)
	}
	t.InputSchema = compact(t.InputSchema)
	return in, nil
}

// compact strips white space and keeps everything else, the order of the keys
// included: the order of `properties` is that of a stub's parameters.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// publicTool is a tool as the sandbox sees it.
type publicTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

func (s *Set) render() ([]byte, error) {
	list := struct {
		V     int          `json:"v"`
		Tools []publicTool `json:"tools"`
	}{V: 1, Tools: []publicTool{}}
	for _, t := range s.tools {
		list.Tools = append(list.Tools, publicTool{t.Name, t.Description, t.InputSchema, t.OutputSchema})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(list); err != nil {
		return nil, &errdef.Error{Code: errdef.Invalid, Op: "tools", Msg: "cannot be written as JSON", Err: err}
	}
	return b.Bytes(), nil
}

// JSON returns tools.json, the file that tells a program its tools:
// {"v":1,"tools":[{"name","description","inputSchema","outputSchema"}]}. The
// caller must not change it.
func (s *Set) JSON() []byte { return s.json }

// Tools returns the tools in their order. The caller must not change them.
func (s *Set) Tools() []Tool { return s.tools }

// names returns the tools' names for unknown_tool.
func (s *Set) names() []string {
	n := make([]string, 0, len(s.tools))
	for i := 0; i < len(s.tools) && i < maxKnownTools; i++ {
		n = append(n, s.tools[i].Name)
	}
	return n
}
