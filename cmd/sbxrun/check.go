package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

// stateDirFlag adds --state-dir to a command that has no other option of a run.
func stateDirFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "state-dir", "", "folder for the record of running sandboxes (default /run/sbxrun for root)")
	arg := cmd.Flags().Lookup("state-dir")
	arg.Usage = strings.Replace(arg.Usage, "folder", "`DIR`: folder", 1)
}

// stateOptions checks the folder given with --state-dir.
func stateOptions(cmd *cobra.Command, dir string) (runtime.Options, error) {
	if !cmd.Flags().Changed("state-dir") {
		return runtime.Options{}, nil
	}
	if dir == "" {
		return runtime.Options{}, errdef.Field("--state-dir", "the value is empty", "a path")
	}
	abs, err := value{}.hostPath(dir)
	return runtime.Options{StateDir: abs}, err
}

func (a *app) checkCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "check [--json]",
		Short: "Report what this host can enforce",
		Long: `Report what this host can enforce, and what is missing for the rest. The exit
status is 0 when everything that each sandbox needs is there, else 1.`,
		Example: `  sbxrun check
  sbxrun check --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := stateOptions(cmd, dir)
			if err != nil {
				return err
			}
			features := runtime.Check(opts)
			ok := allRequired(features)
			if !ok {
				a.status = statusFailed
			}
			if asJSON {
				return a.printJSON(struct {
					OK       bool              `json:"ok"`
					Features []runtime.Feature `json:"features"`
				}{ok, features})
			}
			return a.print(featureTable(features, ok))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	stateDirFlag(cmd, &dir)
	return cmd
}

func allRequired(features []runtime.Feature) bool {
	for _, f := range features {
		if f.Need && !f.OK {
			return false
		}
	}
	return true
}

func featureTable(features []runtime.Feature, ok bool) string {
	var b strings.Builder
	width := 0
	for _, f := range features {
		width = max(width, len(f.Name))
	}
	for _, f := range features {
		word := "ok"
		switch {
		case !f.OK && f.Need:
			word = "MISSING"
		case !f.OK:
			word = "absent"
		}
		line := fmt.Sprintf("%-8s %-*s  %s", word, width, f.Name, f.Detail)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if !f.OK && f.Hint != "" {
			fmt.Fprintf(&b, "%-8s %-*s  hint: %s\n", "", width, "", f.Hint)
		}
	}
	if ok {
		b.WriteString("\nEverything that a sandbox needs is there.\n")
	} else {
		b.WriteString("\nSomething that every sandbox needs is missing: sbxrun refuses to run here.\n")
	}
	return b.String()
}

// print writes a report to standard output.
func (a *app) print(text string) error {
	if _, err := a.out.WriteString(text); err != nil {
		return &errdef.Error{Code: errdef.Resource, Msg: "standard output cannot be written", Err: err}
	}
	return nil
}

// printJSON writes a report as one indented JSON value.
func (a *app) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return a.print(string(text) + "\n")
}

func (a *app) reapCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "reap [--json]",
		Short: "Remove what a killed sbxrun left",
		Long: `Remove what a killed sbxrun or embedding host left: its control groups, its
record (ID.json in the state directory) and its claim on a block of host ids
(/run/sbxrun/ids-N, root only). What belongs to a live one is never touched.`,
		Example: `  sbxrun reap
  sbxrun reap --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := stateOptions(cmd, dir)
			if err != nil {
				return err
			}
			reaped, err := runtime.Reap(opts)
			if reaped == nil {
				reaped = []runtime.Reaped{}
			}
			if asJSON {
				if printErr := a.printJSON(struct {
					Reaped []runtime.Reaped `json:"reaped"`
				}{reaped}); printErr != nil {
					return printErr
				}
				return err
			}
			var b strings.Builder
			for _, s := range reaped {
				fmt.Fprintf(&b, "removed what %s left\n", s.Supervisor)
			}
			if len(reaped) == 0 && err == nil {
				b.WriteString("nothing to remove\n")
			}
			if printErr := a.print(b.String()); printErr != nil {
				return printErr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	stateDirFlag(cmd, &dir)
	return cmd
}
