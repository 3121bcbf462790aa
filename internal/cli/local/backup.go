package local

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "Record backups of the database",
		Long: `Belfry does not back up its database: use a tool of PostgreSQL. Report each backup that
succeeded, so that nodes and doctor know how old the last one is.`,
		Example: `  belfry backup done`,
	}
	done := &cobra.Command{
		Use: "done", Short: "Record that a backup of the database has ended now", Args: noArgs,
		Example: `  belfry backup done`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			at, err := app.BackupDone(cmd.Context(), v.DatabaseURL)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "recorded a backup of %s\n", format(at))
			return err
		},
	}
	databaseFlags(done.Flags())
	usage.Group(cmd, done)
	return cmd
}
