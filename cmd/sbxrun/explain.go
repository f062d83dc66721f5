package main

import (
	"github.com/spf13/cobra"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime"
)

func (a *app) explainCommand() *cobra.Command {
	g := given{}
	var format string
	cmd := &cobra.Command{
		Use:   "explain [flags] -- CMD [ARG...]",
		Short: "Show the effective policy and the set-up steps; run nothing",
		Long: `Show what "sbxrun do" would do with the same flags and profile, and run nothing:
as text, as JSON (its "options" are a profile), or as an OCI configuration.`,
		Example: `  sbxrun explain --memory 128M -- python3 job.py
  sbxrun explain --format json -- true
  sbxrun explain --format oci --profile strict.json -- true >config.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.explain(g, format, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&format, "format", "text", "`WORD`: text, json or oci")
	g.addFlags(cmd.Flags(), options(newRequest(nil)))
	return cmd
}

func (a *app) explain(g given, format string, args []string) error {
	switch format {
	case "text", "json", "oci":
	default:
		return errdef.Field("--format", notOneOf(format).Error(), "text, json, oci")
	}
	r, err := build(g, args)
	// Nothing is run, so nothing is recorded.
	defer r.discard()
	if err != nil {
		return err
	}
	ex, err := runtime.Explain(r.policy)
	if err != nil {
		return flagNames(err)
	}
	switch format {
	case "oci":
		return a.printJSON(ex.Spec)
	case "json":
		return a.printJSON(explainJSON(r, ex))
	}
	return a.print(explainText(r, ex))
}

// explained is the JSON form of an explanation.
type explained struct {
	Command []string `json:"command"`
	// Options has every option's effective value, in the form of a profile.
	Options map[string]any  `json:"options"`
	Tools   []explainedTool `json:"tools,omitempty"`
	Seccomp seccompSummary  `json:"seccomp"`
	Steps   []runtime.Step  `json:"steps"`
	Spec    *specs.Spec     `json:"spec"`
}

type explainedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Timeout     string `json:"timeout,omitempty"`
	MaxCalls    int    `json:"maxCalls,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
}

func explainJSON(r *request, ex *runtime.Explanation) explained {
	out := explained{Command: r.policy.Args, Options: map[string]any{}, Tools: explainTools(r),
		Seccomp: summarise(ex.Spec), Steps: ex.Steps, Spec: ex.Spec}
	for _, o := range options(r) {
		if o.show == nil || o.runOnly {
			continue
		}
		texts := o.show(r)
		switch {
		case o.many && len(texts) > 0:
			out.Options[o.name] = texts
		case o.arg == "":
			out.Options[o.name] = texts[0] == "true"
		case len(texts) == 1:
			out.Options[o.name] = texts[0]
		}
	}
	return out
}

func explainTools(r *request) []explainedTool {
	var tools []explainedTool
	if r.policy.Bridge.Tools == nil {
		return nil
	}
	for _, t := range r.policy.Bridge.Tools.Tools() {
		e := explainedTool{Name: t.Name, Description: t.Description, MaxCalls: t.MaxCalls, Concurrency: t.Concurrency}
		if t.Timeout > 0 {
			e.Timeout = t.Timeout.String()
		}
		tools = append(tools, e)
	}
	return tools
}

// seccompSummary counts what the system call policy does; the rules themselves
// stand in the OCI form.
type seccompSummary struct {
	Default string         `json:"default"`
	Archs   []string       `json:"architectures"`
	Calls   map[string]int `json:"calls"` // by action
}

func summarise(spec *specs.Spec) seccompSummary {
	s := seccompSummary{Calls: map[string]int{}}
	if spec.Linux == nil || spec.Linux.Seccomp == nil {
		return s
	}
	profile := spec.Linux.Seccomp
	s.Default = string(profile.DefaultAction)
	for _, a := range profile.Architectures {
		s.Archs = append(s.Archs, string(a))
	}
	names := map[string]map[string]bool{}
	for _, rule := range profile.Syscalls {
		action := string(rule.Action)
		if names[action] == nil {
			names[action] = map[string]bool{}
		}
		for _, n := range rule.Names {
			names[action][n] = true
		}
	}
	for action, set := range names {
		s.Calls[action] = len(set)
	}
	return s
}
