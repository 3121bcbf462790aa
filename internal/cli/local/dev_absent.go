//go:build server

package local

import (
	"errors"

	"github.com/spf13/cobra"
)

func newDev() *cobra.Command {
	return &cobra.Command{
		Use: "dev", Short: "Run all of Belfry on this machine, to try it (not in this program)", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this program is for servers and has no belfry dev; use the one in the archive of the release")
		},
	}
}
