package local

import (
	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
)

// newRunner is the command that a node starts to run commands.
func newRunner() *cobra.Command {
	return &cobra.Command{
		Use: app.RunnerCommand, Short: "Runs commands for a node, started by it", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return app.Runner(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
