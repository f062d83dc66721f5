// Package gofunc makes tools of Go functions. It is apart from package bridge
// because only it needs a library that infers schemas from types, which costs
// every program that links it 0.25 ms when it starts.
package gofunc

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/errdef"
)

// New makes a tool of a Go function. Both schemas come from the types: In must
// be a struct (or a pointer to one), its json tags name the arguments, fields
// with omitempty or omitzero are optional, a `jsonschema` tag describes one.
//
// What Go cannot represent is refused with invalid_args, never changed: a number
// that does not fit its field, a lone surrogate escape. A field of type any gets
// numbers as json.Number. The function may return a
// [*bridge.ToolError]; the text of
// any other error stays on the host. A result that JSON cannot hold (NaN) is a
// tool_error.
func New[In, Out any](name, description string, fn func(context.Context, In) (Out, error)) (bridge.Tool, error) {
	var none bridge.Tool
	bad := func(what string, err error) error {
		return &errdef.Error{Code: errdef.Invalid, Op: "tools", Path: "tool " + strconv.QuoteToASCII(name), Msg: what, Err: err}
	}
	t := bridge.Tool{Name: name, Description: description}
	in, err := jsonschema.For[In](nil)
	if err != nil {
		return none, bad("no schema for the argument type", err)
	}
	if in.Type != "object" {
		if rt := reflect.TypeFor[In](); rt.Kind() != reflect.Pointer || rt.Elem().Kind() != reflect.Struct {
			return none, bad("the argument type must be a struct", nil)
		}
		in.Type, in.Types = "object", nil
	}
	if t.InputSchema, err = json.Marshal(in); err != nil {
		return none, bad("no schema for the argument type", err)
	}
	out, err := jsonschema.For[Out](nil)
	if err != nil {
		return none, bad("no schema for the result type", err)
	}
	if t.OutputSchema, err = json.Marshal(out); err != nil {
		return none, bad("no schema for the result type", err)
	}
	t.Handler = bridge.HandlerFunc(func(ctx context.Context, c bridge.Call) (json.RawMessage, error) {
		if c.LoneSurrogate() {
			return nil, invalid("a text holds half of a surrogate pair, which this tool cannot take")
		}
		var arg In
		dec := json.NewDecoder(bytes.NewReader(c.Args))
		dec.UseNumber()
		if err := dec.Decode(&arg); err != nil {
			return nil, invalid("the arguments do not fit the tool's types")
		}
		res, err := fn(ctx, arg)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(res)
		if err != nil {
			return nil, &bridge.ToolError{Message: "the result cannot be written as JSON"}
		}
		return raw, nil
	})
	return t, nil
}

func invalid(message string) error {
	return &bridge.ToolError{Code: bridge.InvalidArgs, Message: message}
}
