package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sbxrun/sbxrun/errdef"
)

// Func makes a tool of a Go function. Both schemas come from the types: In must
// be a struct (or a pointer to one), its json tags name the arguments, fields
// with omitempty or omitzero are optional, a `jsonschema` tag describes one.
//
// What Go cannot represent is refused with invalid_args, never changed: a number
// that does not fit its field, a lone surrogate escape. A field of type any gets
// numbers as json.Number. The function may return a [*ToolError]; the text of
// any other error stays on the host. A result that JSON cannot hold (NaN) is a
// tool_error.
func Func[In, Out any](name, description string, fn func(context.Context, In) (Out, error)) (Tool, error) {
	bad := func(what string, err error) error {
		return &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: "tool " + quote(name), Msg: what, Err: err}
	}
	t := Tool{Name: name, Description: description}
	in, err := jsonschema.For[In](nil)
	if err != nil {
		return Tool{}, bad("no schema for the argument type", err)
	}
	if in.Type != "object" {
		if rt := reflect.TypeFor[In](); rt.Kind() != reflect.Pointer || rt.Elem().Kind() != reflect.Struct {
			return Tool{}, bad("the argument type must be a struct", nil)
		}
		in.Type, in.Types = "object", nil
	}
	if t.InputSchema, err = json.Marshal(in); err != nil {
		return Tool{}, bad("no schema for the argument type", err)
	}
	out, err := jsonschema.For[Out](nil)
	if err != nil {
		return Tool{}, bad("no schema for the result type", err)
	}
	if t.OutputSchema, err = json.Marshal(out); err != nil {
		return Tool{}, bad("no schema for the result type", err)
	}
	t.Handler = HandlerFunc(func(ctx context.Context, c Call) (json.RawMessage, error) {
		if c.loneSurrogate {
			return nil, refuse(InvalidArgs, "a text holds half of a surrogate pair, which this tool cannot take")
		}
		var arg In
		dec := json.NewDecoder(bytes.NewReader(c.Args))
		dec.UseNumber()
		if err := dec.Decode(&arg); err != nil {
			return nil, refuse(InvalidArgs, "the arguments do not fit the tool's types")
		}
		res, err := fn(ctx, arg)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(res)
		if err != nil {
			return nil, &ToolError{Message: "the result cannot be written as JSON"}
		}
		return raw, nil
	})
	return t, nil
}
