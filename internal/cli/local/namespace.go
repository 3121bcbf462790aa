package local

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newNamespace() *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Short: "Create and list namespaces, as the owner of the database",
		Long: `Namespaces and their first keys are created with the database URL of its owner:
no key reaches beyond its own namespace.`,
		Example: `  belfry namespace create billing
  belfry namespace list`,
	}
	usage.Group(cmd, newNamespaceCreate(), newNamespaceList(), newNamespaceKey())
	for _, c := range cmd.Commands() {
		databaseFlags(c.Flags())
	}
	return cmd
}

func newNamespaceCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Short: "Create a namespace and print its first key", Args: usage.Args(1, 1),
		Example: `  belfry namespace create billing`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			secret, err := app.CreateNamespace(cmd.Context(), v.DatabaseURL, args[0])
			if err != nil {
				return err
			}
			return printKey(cmd, "the first key of namespace "+args[0]+", an admin's", secret)
		},
	}
}

func newNamespaceList() *cobra.Command {
	var output *string
	cmd := &cobra.Command{
		Use: "list", Short: "List the namespaces", Args: noArgs,
		Example: `  belfry namespace list
  belfry namespace list -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			all, err := app.Namespaces(cmd.Context(), v.DatabaseURL)
			if err != nil {
				return err
			}
			items, rows := []namespaceView{}, [][]string{}
			for _, n := range all {
				items = append(items, namespaceView{n.Name, n.CreatedAt.UTC()})
				rows = append(rows, []string{terminal.Clean(n.Name), terminal.Time(&n.CreatedAt, nil)})
			}
			if *output == usage.Table {
				return terminal.WriteTable(cmd.OutOrStdout(), []string{"NAME", "CREATED UTC"}, rows)
			}
			return terminal.WriteValue(cmd.OutOrStdout(), *output, items)
		},
	}
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

// namespaceView is a namespace in the output for programs.
type namespaceView struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

func newNamespaceKey() *cobra.Command {
	var name, role string
	cmd := &cobra.Command{
		Use: "key NAMESPACE", Short: "Create a key of a namespace, for those who have lost the last one",
		Args:    usage.Args(1, 1),
		Example: `  belfry namespace key default --role admin`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			secret, err := app.CreateKey(cmd.Context(), v.DatabaseURL, args[0], name, access.Role(role))
			if err != nil {
				return err
			}
			return printKey(cmd, "a key of namespace "+args[0]+", role "+role, secret)
		},
	}
	var roles []string
	for _, r := range access.Roles {
		roles = append(roles, string(r))
	}
	cmd.Flags().StringVar(&name, "name", "by the owner of the database", "what the key is for")
	cmd.Flags().StringVar(&role, "role", string(access.Admin), strings.Join(roles, ", "))
	return cmd
}
