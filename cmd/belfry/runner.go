package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
)

// newRunner is the process that runs commands for a node, started by it.
func newRunner() *cobra.Command {
	return &cobra.Command{
		Use: app.RunnerCommand, Short: "Runs commands for a node, started by it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGTERM) // it ends when the node does
			return app.Runner(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
