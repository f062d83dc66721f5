package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/spf13/cobra"

	"github.com/sbxrun/sbxrun/errdef"
)

// versionInfo is what `sbxrun version` prints.
type versionInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Spec    string `json:"spec"`
	Go      string `json:"go"`
	// Launcher is the architecture of the embedded launcher.
	Launcher string `json:"launcher"`
}

func readVersion() versionInfo {
	v := versionInfo{Name: "sbxrun", Version: "(devel)", Commit: "unknown", Spec: specs.Version,
		Go: runtime.Version(), Launcher: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v.Commit = s.Value + v.dirtySuffix(info)
		}
	}
	return v
}

// dirtySuffix marks a build of uncommitted changes.
func (versionInfo) dirtySuffix(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.modified" && s.Value == "true" {
			return "-dirty"
		}
	}
	return ""
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Example: `  sbxrun version
  sbxrun version --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.printVersion(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printVersion(asJSON bool) error {
	v := readVersion()
	if asJSON {
		return a.printJSON(v)
	}
	return a.print(fmt.Sprintf("%s %s\ncommit: %s\nspec: %s\ngo: %s\nlauncher: %s\n",
		v.Name, v.Version, v.Commit, v.Spec, v.Go, v.Launcher))
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for a shell",
		Example: `  source <(sbxrun completion bash)
  sbxrun completion zsh >"${fpath[1]}/_sbxrun"
  sbxrun completion fish >~/.config/fish/completions/sbxrun.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			const allowed = "bash, zsh, fish"
			switch {
			case len(args) == 0:
				return errdef.Field("SHELL", "is missing", allowed)
			case len(args) > 1:
				return errdef.Field(printable(args[1]), "one shell at a time", allowed)
			}
			switch args[0] {
			case "bash", "zsh", "fish":
				return nil
			}
			return errdef.Field(printable(args[0]), "unknown shell", allowed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			default:
				return root.GenFishCompletion(a.out, true)
			}
		},
	}
}
