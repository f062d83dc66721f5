// Package stubs generates what a sandboxed program imports to call the tools of
// a bridge.Set. Everything comes from the schemas alone and is deterministic; the
// generated code needs nothing but its language's standard library.
//
// Python is built; JavaScript and a shell command get a file of their own beside
// python.go.
package stubs

import (
	"github.com/sbxrun/sbxrun/bridge"
)

// File is one generated file.
type File struct {
	// Path is relative to the bridge directory, such as "sdk/sbx_tools.py".
	Path string
	// Mode is the permission bits.
	Mode uint32
	// Data is the content. It may be shared and must not be changed.
	Data []byte
}

// fileMode lets the sandbox read; the mount is read-only besides.
const fileMode = 0o444

// aliasPython serves programs that were written for the older module name.
const aliasPython = `"""Another name of sbx_tools. Generated: do not edit."""
from sbx_tools import *
from sbx_tools import __all__
`

// Files returns the files of the bridge directory for a set of tools:
// tools.json, sdk/sbx_tools.py and its alias sdk/promptise_tools.py.
func Files(set *bridge.Set) ([]File, error) {
	py, err := python(set.Tools())
	if err != nil {
		return nil, err
	}
	return []File{
		{Path: "tools.json", Mode: fileMode, Data: set.JSON()},
		{Path: "sdk/sbx_tools.py", Mode: fileMode, Data: py},
		{Path: "sdk/promptise_tools.py", Mode: fileMode, Data: []byte(aliasPython)},
	}, nil
}
