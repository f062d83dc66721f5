// Command sbxrun runs one untrusted program in one sandbox, with no way out but
// the tools that the caller offers.
//
// Its messages go to standard error only: standard output belongs to the
// sandboxed program, or to the report that was asked for.
package main

import (
	"os"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"
)

func main() {
	// The self-test copies this binary into a sandbox and runs it there under
	// this name; it must come before everything that a command would set up.
	if len(os.Args) > 1 && os.Args[1] == probe.Command {
		os.Exit(probe.Main(os.Args[2:], os.Stdout))
	}
	hostfile.Adopt()
	surviveWrites()
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// streams are the command's standard streams, replaced by tests.
type streams struct {
	in       *os.File
	out, err *os.File
}
