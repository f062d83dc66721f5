package errdef

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		e    Error
		want string
	}{
		{Error{Path: "memory", Msg: "0 is out of bounds"}, "memory: 0 is out of bounds"},
		{Error{Msg: "cannot start", Errno: syscall.EPERM}, "cannot start: operation not permitted"},
		{Error{Path: "a", Msg: "b", Err: errors.New("c")}, "a: b: c"},
		{Error{Path: "a", Err: errors.New("c"), Errno: syscall.EPERM}, "a: c"},
		{Error{Msg: "two\nlines"}, "two lines"},
		{Error{Path: "x\ny", Err: errors.New("1\n2")}, "x y: 1 2"},
		{Error{Op: "mount", Msg: "no", Hint: "try"}, "no"},
		{Error{Errno: syscall.ENOENT}, "no such file or directory"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}

func TestErrorHintIsNotInText(t *testing.T) {
	e := &Error{Path: "p", Msg: "m", Hint: "the-hint"}
	if strings.Contains(e.Error(), "the-hint") {
		t.Error(e)
	}
	if got := HintOf(fmt.Errorf("outer: %w", e)); got != "the-hint" {
		t.Errorf("HintOf = %q", got)
	}
	if got := HintOf(errors.New("plain")); got != "" {
		t.Errorf("HintOf of a plain error = %q", got)
	}
	if HintOf(nil) != "" {
		t.Error("HintOf(nil)")
	}
}

func TestUnwrap(t *testing.T) {
	cause := &os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}
	e := &Error{Code: Setup, Err: cause, Errno: syscall.EPERM}
	if !errors.Is(e, fs.ErrNotExist) {
		t.Error("the wrapped cause is not found")
	}
	if errors.Is(e, syscall.EPERM) {
		t.Error("Err goes before Errno")
	}
	if !errors.Is(&Error{Errno: syscall.EPERM}, fs.ErrPermission) {
		t.Error("the errno is not found")
	}
	if errors.Unwrap(&Error{Msg: "m"}) != nil {
		t.Error("an error without a cause has one")
	}
}

func TestIs(t *testing.T) {
	codes := []Code{Invalid, Unsupported, Permission, NotFound, Exists, State, Setup, CommandNotFound, NotExecutable, Resource, Internal}
	for _, have := range codes {
		err := fmt.Errorf("outer: %w", &Error{Code: have})
		for _, ask := range codes {
			if Is(err, ask) != (have == ask) {
				t.Errorf("Is(%s, %s) = %v", have, ask, have != ask)
			}
		}
	}
	if Is(nil, Invalid) || Is(errors.New("x"), Invalid) {
		t.Error("an untyped error has a code")
	}
	if !Is(errors.Join(errors.New("x"), &Error{Code: State}), State) {
		t.Error("a joined error is not found")
	}
}

// The codes are an interface: they appear in records.
func TestCodesAreStable(t *testing.T) {
	for code, want := range map[Code]string{
		Invalid: "invalid", Unsupported: "unsupported", Permission: "permission", NotFound: "not-found",
		Exists: "exists", State: "state", Setup: "setup", CommandNotFound: "command-not-found",
		NotExecutable: "not-executable", Resource: "resource", Internal: "internal",
	} {
		if string(code) != want {
			t.Errorf("%q, want %q", code, want)
		}
	}
}

func TestField(t *testing.T) {
	e := Field("memory", "0 is out of bounds", "1 to 2")
	if e.Code != Invalid || e.Path != "memory" || e.Error() != "memory: 0 is out of bounds (allowed: 1 to 2)" {
		t.Errorf("%+v %q", e, e)
	}
	if e := Field("a", "b", ""); e.Error() != "a: b" {
		t.Errorf("%q", e)
	}
}
