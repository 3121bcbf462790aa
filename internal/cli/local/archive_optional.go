package local

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
)

func newArchiveOptional() *cobra.Command {
	cmd := &cobra.Command{
		Use: "optional", Short: "Let nodes drop days that the archive does not have", Args: noArgs,
		Example: `  belfry archive optional --config belfry.yaml`,
		Long: `End what archive.required: true began: nodes drop days of history by their age alone,
whether or not the archive has them. First set archive.required: false on all nodes,
because the next start of a node with true requires the archive again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			changed, err := app.ArchiveOptional(cmd.Context(), v.DatabaseURL)
			if err != nil {
				return err
			}
			text := "the archive was not required; nothing to change"
			if changed {
				text = "the archive is optional: nodes drop days that are older than keep_history, archived or not"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	databaseFlags(cmd.Flags())
	return cmd
}
