package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

// statusFailed is the exit status of check and selftest where something that is
// needed is missing. It differs from 125: the command itself worked.
const statusFailed = 1

// statusNoReader is the exit status where nobody reads a report any more: what a
// shell shows for a command that SIGPIPE ended.
const statusNoReader = 128 + int(syscall.SIGPIPE)

// run executes one command line and returns the exit status.
func run(args []string, st streams) int {
	app := &app{streams: st, args: args}
	root := app.rootCommand()
	root.SetArgs(args)
	root.SetIn(st.in)
	root.SetOut(st.out)
	root.SetErr(st.err)
	cmd, err := root.ExecuteC()
	if err != nil {
		return app.fail(cmd, err)
	}
	return app.status
}

// app is the state of one command line.
type app struct {
	streams
	args   []string
	status int // what a command that ran wants to exit with
}

// rootCommand builds the command tree. It is built once a process, so it costs
// start-up: no text is composed here.
func (a *app) rootCommand() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "sbxrun COMMAND [flags]",
		Short: "Run untrusted programs with no way out but the tools you offer",
		Example: `  sbxrun do -- python3 -c 'print(6*7)'
  sbxrun do --timeout 5s --memory 128M --file job.py -- python3 job.py
  sbxrun check`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case version:
				return a.printVersion(false)
			case len(args) == 0:
				return &errdef.Error{Code: errdef.Invalid, Msg: "no command given",
					Hint: `"sbxrun --help" lists the commands`}
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version and exit")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(a.doCommand(), a.explainCommand(), a.checkCommand(), a.selftestCommand(),
		a.reapCommand(), a.versionCommand(), a.completionCommand())
	return root
}

// ociVerbs are the commands of an OCI runtime that this version does not have.
// They get a sentence of their own, since they stand in its design.
var ociVerbs = [...]string{"create", "start", "state", "kill", "delete", "run", "exec", "ps", "list",
	"pause", "resume", "update", "events", "spec", "features"}

func unknownCommand(root *cobra.Command, name string) error {
	e := &errdef.Error{Code: errdef.Invalid, Path: printable(name), Msg: "unknown command",
		Hint: `"sbxrun --help" lists the commands`}
	for _, verb := range ociVerbs {
		if name == verb {
			e.Code, e.Msg = errdef.Unsupported, "the OCI commands are not in this version"
			e.Hint = `"sbxrun do -- CMD" runs one program in one sandbox`
			return e
		}
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := nearest(name, names); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

// noArgs refuses arguments for a command that takes none.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &errdef.Error{Code: errdef.Invalid, Path: printable(args[0]), Msg: "unexpected argument",
		Hint: "this command takes flags only"}
}

// flagError turns the flag parser's error into one typed line.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		f := missing.GetFlag()
		return &errdef.Error{Code: errdef.Invalid, Path: "--" + f.Name, Msg: "the value is missing",
			Hint: fmt.Sprintf("write --%s %s", f.Name, f.Value.Type())}
	case errors.As(err, &invalid):
		e := errdef.Field("--"+invalid.GetFlag().Name, fmt.Sprintf("%s is not a valid value", quoteValue(invalid.GetValue())), "")
		if invalid.GetFlag().Value.Type() == "bool" {
			e.Msg += " (allowed: true, false)"
		}
		return e
	case errors.As(err, &syntax):
		return &errdef.Error{Code: errdef.Invalid, Path: printable(syntax.GetSpecifiedFlag()), Msg: "not the form of a flag",
			Hint: "flags are written --name VALUE or --name=VALUE"}
	}
	return &errdef.Error{Code: errdef.Invalid, Msg: err.Error()}
}

func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return &errdef.Error{Code: errdef.Invalid, Path: printable("-" + name), Msg: "unknown flag",
			Hint: "flags have long names only, such as --memory"}
	}
	e := &errdef.Error{Code: errdef.Invalid, Path: printable("--" + name), Msg: "unknown flag",
		Hint: fmt.Sprintf("%q lists the flags", cmd.CommandPath()+" --help")}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := nearest(name, names); near != "" {
		e.Hint = "did you mean --" + near + "?"
	}
	return e
}

// fail reports an error of the command line as a whole: at most two lines on
// standard error, never on standard output.
func (a *app) fail(cmd *cobra.Command, err error) int {
	where := ""
	if cmd != nil && cmd.HasParent() {
		where = cmd.Name()
	}
	if where != "do" && errors.Is(err, syscall.EPIPE) {
		return statusNoReader // "sbxrun explain ... | head" is no failure
	}
	a.report(where, err)
	if where == "do" {
		// The parser stopped before the command could: the record is owed all the same.
		a.recordUnparsed(err)
	}
	return runtime.StatusRefused
}

// report prints the error and its hint on standard error.
func (a *app) report(where string, err error) {
	line := "sbxrun: "
	if where != "" {
		line += where + ": "
	}
	line += strings.ReplaceAll(err.Error(), "\n", " ") + "\n"
	if hint := errdef.HintOf(err); hint != "" {
		line += "hint: " + strings.ReplaceAll(hint, "\n", " ") + "\n"
	}
	// One write, so that lines of several sbxrun on one terminal stay whole. Where
	// nobody reads it, the exit status and the record have to do.
	_ = hostfile.WriteBounded(a.err, []byte(line))
}
