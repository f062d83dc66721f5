package main

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/selftest"
)

func (a *app) selftestCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "selftest [--json]",
		Short: "Try to get out of a fresh sandbox; fail unless everything is denied",
		Long: `Try to get out of fresh sandboxes: over the network, through system calls, files,
processes and the tool channel, and past every limit, while one tool call has to
succeed. The exit status is 0 when each attempt got the expected answer, else 1.
Only documentation addresses and sockets of this host are tried. Without root the
program has the caller's own id on the host and may list the tool channel's
folders; both are expected then.`,
		Example: `  sbxrun selftest
  sbxrun selftest --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := stateOptions(cmd, dir)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			report, err := selftest.Run(ctx, opts)
			if err != nil {
				return err
			}
			if !report.OK {
				a.status = statusFailed
			}
			if asJSON {
				return a.printJSON(report)
			}
			return a.print(selftestTable(report))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	stateDirFlag(cmd, &dir)
	return cmd
}

func selftestTable(r *selftest.Report) string {
	var b strings.Builder
	width, failed := 0, 0
	for _, v := range r.Probes {
		width = max(width, len(v.Name))
	}
	for _, v := range r.Probes {
		word := "ok"
		if !v.OK {
			word = "FAILED"
			failed++
		}
		line := fmt.Sprintf("%-6s  %-*s  expected %s, got %s", word, width, v.Name, v.Expected, v.Got)
		b.WriteString(strings.Map(visible, line) + "\n")
	}
	fmt.Fprintf(&b, "\n%d attempts, %d failed\n", len(r.Probes), failed)
	return b.String()
}
