package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/runtime"
)

func (a *app) doCommand() *cobra.Command {
	g := given{}
	cmd := &cobra.Command{
		Use:   "do [flags] -- CMD [ARG...]",
		Short: "Run one program in one sandbox, destroyed afterwards",
		Long: `Run one program in one sandbox, destroyed afterwards.

No limit has a value for "unlimited", and what cannot be enforced here is
refused before the program starts. The exit status is the program's own; 124:
time limit; 125: sbxrun refused or failed and the program did not start, or an
output or record could not be written; 126: not executable; 127: not found;
128+n: killed by signal n. The record of --result says which it was.`,
		Example: `  sbxrun do -- python3 -c 'print(6*7)'
  sbxrun do --timeout 5s --memory 128M --file job.py --out report.json -- python3 job.py
  sbxrun do --tool weather='./weather --json' --result 3 -- ./agent.sh 3>result.json
  sbxrun do --profile strict.json --env LANG=C.UTF-8 --stdin -- wc -c <data`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			a.status = a.do(g, args)
			return nil
		},
	}
	// What follows the program's name is the program's, also without "--".
	cmd.Flags().SetInterspersed(false)
	g.addFlags(cmd.Flags(), options(newRequest(nil)))
	return cmd
}

// do runs one program and returns sbxrun's exit status.
func (a *app) do(g given, args []string) int {
	r, err := build(g, args)
	if err != nil {
		return a.refuse(r, err)
	}
	defer r.discard()
	if r.stdin {
		if err := checkInput(a.in); err != nil {
			return a.refuse(r, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := catchSignals()
	defer signals.release()
	stopEarly := context.AfterFunc(signals.first, cancel)

	host, err := runtime.Open(runtime.Options{StateDir: r.stateDir, OneShot: true, First: &r.policy})
	if err != nil {
		return a.refuse(r, err)
	}
	defer host.Close()
	stdout := newOutput(a.out)
	stderr := newOutput(a.err)
	opts := runtime.RunOptions{Stdout: stdout, Stderr: stderr, Events: eventWriter(r.events)}
	if r.stdin {
		opts.Stdin = a.in
	}
	sandbox, err := host.Start(ctx, r.policy, opts)
	if err != nil {
		return a.refuse(r, flagNames(err))
	}
	// From here on a signal is the program's, not the end of the sandbox.
	stopEarly()
	done := make(chan struct{})
	go forwardSignals(signals.ch, sandbox, done)
	stdout.onBroken(func() { _ = sandbox.Signal(syscall.SIGPIPE) })
	stderr.onBroken(func() { _ = sandbox.Signal(syscall.SIGPIPE) })
	res := sandbox.Wait()
	close(done)
	a.explainEnd(res, &r.policy)
	return a.finish(r, res)
}

// refuse reports an error before the start and records it.
func (a *app) refuse(r *request, err error) int {
	a.report("do", err)
	return a.finish(r, runtime.RefusedResult(err))
}

// finish writes the record and returns the exit status.
func (a *app) finish(r *request, res *runtime.Result) int {
	defer r.discard()
	status := res.ExitStatus()
	if r.events != nil && r.events.Err() != nil {
		// An audit record is missing: no status may look like the program's. What
		// failed stands in the result.
		status = runtime.StatusRefused
	}
	if r.result == nil {
		return status
	}
	if err := writeRecord(r.result, res); err != nil {
		// The record is the authoritative answer; without it, no status may look like one.
		a.report("do", prefixed("--result", err))
		return runtime.StatusRefused
	}
	r.result = nil
	return status
}

// checkInput refuses a standard input that there is nothing to read from.
func checkInput(in *os.File) error {
	const allowed = "a file, pipe, socket or terminal that is open for reading"
	st, err := in.Stat()
	if err != nil {
		return &errdef.Error{Code: errdef.Invalid, Path: "--stdin", Msg: "standard input cannot be used", Err: err}
	}
	if st.IsDir() {
		return errdef.Field("--stdin", "standard input is "+hostfile.Kind(st.Mode()), allowed)
	}
	fd, err := sys.FileFD(in)
	if err == nil {
		var read bool
		if read, _, err = sys.OpenFor(fd); err == nil && !read {
			return errdef.Field("--stdin", "standard input is not open for reading", allowed)
		}
	}
	return err
}

func writeRecord(to *hostfile.Record, res *runtime.Result) error {
	line, err := json.Marshal(res)
	if err != nil {
		return err
	}
	return to.Write(append(line, '\n'))
}

// recordUnparsed records a refusal of a command line that the flag parser gave
// up on. Where --result stands is then a matter of reading the words again: an
// unknown flag is taken to have a value when a word that is no flag follows it.
func (a *app) recordUnparsed(err error) {
	text, ok := findResult(a.args, options(newRequest(nil)))
	if !ok {
		return
	}
	r := newRequest(nil)
	o := optionNamed(options(r), "result")
	if setErr := o.apply(r, value{text: text, origin: "--result"}); setErr != nil {
		a.report("do", setErr)
		return
	}
	if writeErr := writeRecord(r.result, runtime.RefusedResult(err)); writeErr != nil {
		a.report("do", prefixed("--result", writeErr))
	}
}

// findResult returns the value of --result among the flags of `do`.
func findResult(args []string, options []*option) (text string, ok bool) {
	for i := 1; i < len(args); i++ { // args[0] is "do"
		arg := args[i]
		if arg == "--" || !strings.HasPrefix(arg, "-") {
			return text, ok
		}
		name, inline, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		o := optionNamed(options, name)
		switch {
		case hasValue:
		case o != nil && o.arg == "":
			continue
		case i+1 == len(args), o == nil && strings.HasPrefix(args[i+1], "-"):
			continue
		default:
			i++
			inline = args[i]
		}
		if o != nil && o.name == "result" {
			text, ok = inline, true
		}
	}
	return text, ok
}

// eventWriter returns the function that appends events to the sink, nil without
// a sink.
func eventWriter(to *hostfile.Lines) func(runtime.Event) error {
	if to == nil {
		return nil
	}
	return func(e runtime.Event) error {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := to.Write(line); err != nil {
			return &errdef.Error{Code: errdef.Resource, Path: "--events", Msg: "cannot be written", Err: err}
		}
		return nil
	}
}
