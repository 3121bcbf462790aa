package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

type clusterView struct {
	Nodes []struct {
		Name       string     `json:"name"`
		Session    string     `json:"session"`
		StartedAt  *time.Time `json:"started_at"`
		ExpiresAt  *time.Time `json:"expires_at"`
		Draining   bool       `json:"draining"`
		Partitions []int      `json:"partitions"`
	} `json:"nodes"`
	Partitions    int        `json:"partitions"`
	Unowned       []int      `json:"unowned"`
	SchemaVersion int64      `json:"schema_version"`
	DatabaseTime  *time.Time `json:"database_time"`
	Version       string     `json:"version"`
}

func newCluster() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "cluster", Short: "Show the live nodes and the partitions that they own", Args: usage.Args(0, 0),
		Long: `Show the live nodes of the cluster, the session and the partitions of each, and the
partitions that no live node owns: runs of their jobs wait until one does.`,
		Example: `  belfry cluster
  belfry cluster -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			raw, err := r.Get(ctx, "/cluster", nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				c, err := terminal.Decode[clusterView](raw)
				if err != nil {
					return err
				}
				return printCluster(r, &c)
			})
		}),
	})
}

func printCluster(r *remote.Server, c *clusterView) error {
	owned := fmt.Sprintf("all %d have an owner", c.Partitions)
	if n := len(c.Unowned); n > 0 {
		owned = terminal.Red.Render(fmt.Sprintf("%d of %d have no live owner; their runs wait", n, c.Partitions))
	}
	err := terminal.WriteFields(r.Out, []terminal.Field{
		{"nodes", strconv.Itoa(len(c.Nodes))},
		{"partitions", owned},
		{"version", c.Version + terminal.Faint.Render(" (of the node that answered)")},
		{"schema", strconv.FormatInt(c.SchemaVersion, 10)},
		{"database", terminal.Moment(c.DatabaseTime, nil)},
	})
	if err != nil || len(c.Nodes) == 0 {
		return err
	}
	rows := make([][]string, len(c.Nodes))
	for i, n := range c.Nodes {
		state := "active"
		if n.Draining {
			state = "draining"
		}
		rows[i] = []string{
			n.Name, terminal.State(state), strconv.Itoa(len(n.Partitions)), terminal.Time(n.StartedAt, nil),
			terminal.Time(n.ExpiresAt, nil), n.Session,
		}
	}
	r.Line("")
	return terminal.WriteTable(r.Out,
		[]string{"NODE", "STATE", "PARTITIONS", "STARTED UTC", "EXPIRES UTC", "SESSION"}, rows)
}
