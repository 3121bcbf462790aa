package local

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/problem"
)

func newNamespace() *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Short: "Create and list namespaces, as the owner of the database",
		Long: `Namespaces and their first keys are created with the database URL of its owner:
no key reaches beyond its own namespace.`,
		Example: `  belfry namespace create billing
  belfry namespace quota billing --jobs 100000
  belfry namespace list`,
	}
	usage.Group(cmd, newNamespaceCreate(), newNamespaceQuota(), newNamespaceList(), newNamespaceKey())
	for _, c := range cmd.Commands() {
		databaseFlags(c.Flags())
	}
	return cmd
}

func newNamespaceCreate() *cobra.Command {
	var life *keyLife
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a namespace and print its first key", Args: usage.Args(1, 1),
		Example: `  belfry namespace create billing`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			secret, err := app.CreateNamespace(cmd.Context(), databaseOf(v), args[0], life.life)
			if err != nil {
				return err
			}
			return printKey(cmd, life.named("the first key of namespace "+args[0]+", an admin's"), secret)
		},
	}
	life = newKeyLife(cmd.Flags(), keyExpiresIn)
	return cmd
}

func newNamespaceQuota() *cobra.Command {
	var output *string
	limits := map[access.Quota]*string{}
	cmd := &cobra.Command{
		Use: "quota NAME", Short: "Set the quotas of a namespace, or show them", Args: usage.Args(1, 1),
		Long: `Set the quotas of a namespace and show all of them, with how much is used. Without a
flag, only show them.

Quotas take effect immediately. What already exceeds a new quota stays, and nothing can
be added until it is below. The word none removes a quota.`,
		Example: `  belfry namespace quota billing
  belfry namespace quota billing --jobs 100000 --runs-per-minute 6000
  belfry namespace quota billing --jobs none`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			set := access.QuotaParams{}
			for q, text := range limits {
				if *text == "" {
					continue
				}
				n, err := strconv.ParseInt(*text, 10, 64)
				if err != nil && *text != "none" {
					return usage.Errorf("--%s %s: use a number, or none", quotaFlag(q), problem.Quote(*text))
				}
				if set[q] = &n; *text == "none" {
					set[q] = nil
				}
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			all, err := app.Quotas(cmd.Context(), databaseOf(v), args[0], set)
			if err != nil {
				return err
			}
			items, rows := []quotaView{}, [][]string{}
			for _, q := range all {
				items = append(items, quotaView{q.Quota, q.Limit, q.Used})
				rows = append(rows, terminal.QuotaRow(string(q.Quota), q.Used, q.Limit))
			}
			if *output == usage.Table {
				return terminal.WriteTable(cmd.OutOrStdout(), terminal.QuotaHeaders, rows)
			}
			return terminal.WriteValue(cmd.OutOrStdout(), *output, items)
		},
	}
	output = usage.OutputFlag(cmd.Flags())
	for _, q := range access.Quotas {
		limits[q] = cmd.Flags().String(quotaFlag(q), "", quotaHelp[q])
	}
	return cmd
}

var quotaHelp = map[access.Quota]string{
	access.QuotaJobs: "maximum number of jobs, or none",
	access.QuotaRuns: "how many attempts may start per minute, or none; further runs wait",
}

func quotaFlag(q access.Quota) string { return strings.ReplaceAll(string(q), "_", "-") }

// quotaView is a quota in the output for programs.
type quotaView struct {
	Name  access.Quota `json:"name"`
	Limit *int64       `json:"limit,omitempty"`
	Used  *int64       `json:"used,omitempty"`
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
	var life *keyLife
	cmd := &cobra.Command{
		Use: "key NAMESPACE", Short: "Create a key of a namespace, for those who have lost the last one",
		Args:    usage.Args(1, 1),
		Example: `  belfry namespace key default --expires-in 24h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			secret, err := app.CreateKey(cmd.Context(), databaseOf(v), args[0],
				access.KeyParams{Name: name, Role: access.Role(role), ExpiresIn: life.life})
			if err != nil {
				return err
			}
			return printKey(cmd, life.named("a key of namespace "+args[0]+", role "+role), secret)
		},
	}
	var roles []string
	for _, r := range access.Roles {
		roles = append(roles, string(r))
	}
	cmd.Flags().StringVar(&name, "name", "by the owner of the database", "what the key is for")
	cmd.Flags().StringVar(&role, "role", string(access.Admin), strings.Join(roles, ", "))
	life = newKeyLife(cmd.Flags(), "expires-in")
	return cmd
}
