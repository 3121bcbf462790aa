package local

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show, check and explain the configuration",
		Example: `  belfry config example >belfry.yaml
  belfry config check belfry.yaml
  belfry config show --config belfry.yaml`,
	}
	usage.Group(cmd, newConfigShow(), newConfigCheck(),
		&cobra.Command{
			Use: "example", Short: "Print a configuration file with all defaults, explained", Args: usage.Args(0, 0),
			Example: `  belfry config example >belfry.yaml`,
			RunE:    func(cmd *cobra.Command, _ []string) error { return config.Example(cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "reference", Short: "Print the page of the documentation", Hidden: true, Args: usage.Args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error { return config.Reference(cmd.OutOrStdout()) },
		})
	return cmd
}

func newConfigShow() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "show", Short: "Print the settings in force and where each came from", Args: usage.Args(0, 0),
		Long: `Print the settings that belfry server would use with the same flags, environment
and file, and where each came from. Passwords are not printed.`,
		Example: `  belfry config show
  belfry config show --config belfry.yaml -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			warn(cmd, v)
			return v.Show(cmd.OutOrStdout(), output)
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return cmd
}

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say what is wrong with a configuration file", Args: usage.Args(1, 1),
		Example: `  belfry config check belfry.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := config.LoadFile(args[0])
			if err != nil {
				return err
			}
			warn(cmd, v)
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is good\n", args[0])
			return err
		},
	}
}
