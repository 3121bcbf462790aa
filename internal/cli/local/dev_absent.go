//go:build server

package local

import (
	"errors"

	"github.com/spf13/cobra"
)

func newDev() *cobra.Command {
	return &cobra.Command{
		Use: "dev", Hidden: true, DisableFlagParsing: true, // only for those who try it
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this program is for servers and has no belfry dev; use the one in the archive of the release")
		},
	}
}
