// Package errdef holds the one error type that sbxrun's packages return to a
// host: it says what went wrong, on which object, why, and how to mend it.
//
// Callers branch on [Error.Code] with [Is] or errors.As, never on text.
package errdef

import (
	"errors"
	"strings"
	"syscall"
)

// Code is the kind of a failure. Codes are stable: they appear in the result
// record (`error.code`) and in audit records.
type Code string

const (
	// Invalid means that the caller's input (flag, policy, tools file, profile)
	// breaks a rule. Nothing was started.
	Invalid Code = "invalid"
	// Unsupported means that a demanded control cannot be enforced on this
	// host. Nothing was started: a control is refused, never weakened.
	Unsupported Code = "unsupported"
	// Permission means that the host's kernel refused the caller an operation.
	Permission Code = "permission"
	// NotFound means that the named object does not exist.
	NotFound Code = "not-found"
	// Exists means that the named object exists already.
	Exists Code = "exists"
	// State means that the object is not in a state that allows the operation.
	State Code = "state"
	// Setup means that a step of the sandbox's set-up failed.
	Setup Code = "setup"
	// CommandNotFound means that the program does not exist in the sandbox.
	CommandNotFound Code = "command-not-found"
	// NotExecutable means that the program exists but cannot be executed.
	NotExecutable Code = "not-executable"
	// Resource means that the host ran out of something (descriptors, memory,
	// uid ranges) while the sandbox was built.
	Resource Code = "resource"
	// Internal means a fault of sbxrun itself.
	Internal Code = "internal"
)

// Error is a typed failure. Its text is one line:
//
//	OBJECT: WHAT: WHY
//
// and never holds the hint, which front ends print on a line of its own.
type Error struct {
	Code Code
	// Op names the step or operation, such as "mount-proc" or "policy".
	Op string
	// Path is the object: a flag, a field, a file, a cgroup. It may be empty.
	Path string
	// Msg says what went wrong, without Op and Path where those say it already.
	Msg string
	// Errno is the kernel's reason, 0 where there is none.
	Errno syscall.Errno
	// Hint says how to mend it, "" where that is not known.
	Hint string
	// Err is the wrapped cause, if any.
	Err error
}

// Error returns the failure as one line.
func (e *Error) Error() string {
	var parts []string
	for _, p := range []string{e.Path, e.Msg} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	switch {
	case e.Err != nil:
		parts = append(parts, e.Err.Error())
	case e.Errno != 0:
		parts = append(parts, e.Errno.Error())
	}
	return strings.ReplaceAll(strings.Join(parts, ": "), "\n", " ")
}

// Unwrap returns the cause: the wrapped error, else the errno.
func (e *Error) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	if e.Errno != 0 {
		return e.Errno
	}
	return nil
}

// Is reports whether err is, or wraps, an *Error with the code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// HintOf returns the hint of the first *Error in err's chain, "" without one.
func HintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// Field returns an Invalid error for a field of the caller's input. what names
// the problem, allowed the values that the field takes.
func Field(field, what, allowed string) *Error {
	e := &Error{Code: Invalid, Op: "policy", Path: field, Msg: what}
	if allowed != "" {
		e.Msg += " (allowed: " + allowed + ")"
	}
	return e
}
