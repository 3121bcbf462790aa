package admin

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

type quotaView struct {
	Name  string `json:"name"`
	Limit *int64 `json:"limit"`
	Used  *int64 `json:"used"`
}

func newQuota() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "quota", Short: "Show the quotas of your namespace and how much is used", Args: usage.Args(0, 0),
		Long: `Show the quotas of your namespace and how much of them is used. The operator of the
cluster sets them, with belfry namespace quota.`,
		Example: `  belfry quota
  belfry quota -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			return remote.List(ctx, r, remote.Listing{
				Path: "/quotas", OnePage: true, Name: "name", Headers: terminal.QuotaHeaders,
			}, func(q quotaView) []string { return terminal.QuotaRow(q.Name, q.Used, q.Limit) })
		}),
	})
}
