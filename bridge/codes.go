package bridge

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// Code is the outcome of a call. Codes are part of the protocol.
type Code string

const (
	// OK is the outcome of a call that has a result.
	OK Code = "ok"
	// BadRequest means not JSON, not an object, wrong types, too deep, a bad or
	// duplicate id, or a request that is no plain file.
	BadRequest Code = "bad_request"
	// UnknownTool means that there is no such tool.
	UnknownTool Code = "unknown_tool"
	// InvalidArgs means that the arguments break the tool's schema.
	InvalidArgs Code = "invalid_args"
	// Denied means that the approval gate or the policy said no.
	Denied Code = "denied"
	// BudgetExceeded means that the run's or the tool's calls are used up.
	BudgetExceeded Code = "budget_exceeded"
	// TooLarge means that a request or a result is over its limit.
	TooLarge Code = "too_large"
	// Timeout means that the tool ran past its deadline.
	Timeout Code = "timeout"
	// ToolFailed means that the tool itself failed.
	ToolFailed Code = "tool_error"
	// Overloaded means that too many requests wait.
	Overloaded Code = "overloaded"
	// Closed means that the run is over.
	Closed Code = "closed"
	// Internal means the host's own fault.
	Internal Code = "internal"
)

// typeName returns the `type` of a reply with the code: the name of the
// exception that a stub raises.
func (c Code) typeName() string {
	switch c {
	case BadRequest:
		return "BadRequest"
	case UnknownTool:
		return "ToolNotFound"
	case InvalidArgs:
		return "InvalidArguments"
	case Denied:
		return "ToolDenied"
	case BudgetExceeded:
		return "BudgetExceeded"
	case TooLarge:
		return "ResultTooLarge"
	case Timeout:
		return "ToolTimeout"
	case Overloaded:
		return "Overloaded"
	case Closed:
		return "BridgeClosed"
	case Internal:
		return "InternalError"
	default:
		return "ToolError"
	}
}

// ToolError is a failure that a tool declares to the program: all its fields
// reach the sandbox. Any other error of a handler is the host's secret: the
// program only learns that the tool failed, the text goes to the audit record.
type ToolError struct {
	// Type is the kind of the failure, such as "NotFound"; "" means "ToolError".
	Type string
	// Message is one sentence for the program.
	Message string
	// Hint says how to mend it, "" without one.
	Hint string
	// Details is any JSON value, nil without one.
	Details json.RawMessage
	// Code is the outcome, "" means tool_error. A handler may use invalid_args,
	// too_large and timeout as well.
	Code Code
}

func (e *ToolError) Error() string { return e.fullType() + ": " + e.Message }

func (e *ToolError) fullType() string {
	if e.Type != "" {
		return e.Type
	}
	return e.code().typeName()
}

func (e *ToolError) code() Code {
	switch e.Code {
	case "", OK:
		return ToolFailed
	default:
		return e.Code
	}
}

// refuse returns a refusal with a code of the bridge's own.
func refuse(code Code, message string) *ToolError { return &ToolError{Code: code, Message: message} }

// asToolError turns a handler's error into what the program may read, and into
// the text for the host's record.
func asToolError(err error) (*ToolError, string) {
	var te *ToolError
	if errors.As(err, &te) {
		return te, err.Error()
	}
	return &ToolError{Code: ToolFailed, Message: "the tool failed"}, err.Error()
}

// errorReply is the body of a reply that carries a failure.
type errorReply struct {
	V       int             `json:"v"`
	ID      string          `json:"id"`
	Error   string          `json:"error"`
	Code    Code            `json:"code"`
	Type    string          `json:"type"`
	Hint    string          `json:"hint,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// body returns the reply to the request.
func (e *ToolError) body(id string) []byte {
	r := errorReply{V: 1, ID: id, Code: e.code(), Type: clip(harmless(e.fullType()), maxToolEcho), Hint: clip(harmless(e.Hint), maxErrorText)}
	r.Error = clip(r.Type+": "+harmless(e.Message), maxErrorText)
	if len(e.Details) <= DefaultRequest && json.Valid(e.Details) {
		r.Details = e.Details
	}
	b, err := json.Marshal(r)
	if err != nil { // cannot happen: every field is text or checked JSON
		return []byte(`{"v":1,"id":"` + id + `","error":"InternalError: unprintable","code":"internal","type":"InternalError"}`)
	}
	return b
}

// clip shortens a text to n bytes at a rune's border, and makes it valid UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// harmless replaces what could forge a line or turn the text around where an
// error is printed: control characters but line feed and tab, the line and
// paragraph separators, and the marks that change the direction of writing.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029,
			r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return ' '
		}
		return r
	}, s)
}
