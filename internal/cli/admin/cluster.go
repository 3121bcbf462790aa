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
		Version    string     `json:"version"`
		TZData     string     `json:"tzdata"`
		Slots      *int       `json:"slots"`
		SlotsFree  *int       `json:"slots_free"`
	} `json:"nodes"`
	Owners []struct {
		OldestDueAt *time.Time `json:"oldest_due_at"`
	} `json:"owners"`
	LagMore      bool `json:"lag_more"`
	ClockInDoubt bool `json:"clock_in_doubt"`
	Database     struct {
		Version        string `json:"version"`
		Connections    int    `json:"connections"`
		MaxConnections int    `json:"max_connections"`
	} `json:"database"`
	Partitions    int        `json:"partitions"`
	Unowned       []int      `json:"unowned"`
	SchemaVersion int64      `json:"schema_version"`
	DatabaseTime  *time.Time `json:"database_time"`
	Version       string     `json:"version"`
}

func newCluster() *cobra.Command {
	return remote.Flags(&cobra.Command{
		Use: "cluster", Short: "Show the live nodes and the partitions that they own", Args: usage.Args(0, 0),
		Long: `Show the live nodes of the cluster: the version, the free slots, the partitions and
the session of each. Also show the partitions that no live node owns, whose runs
wait until one does, and the oldest run that could start and has not.`,
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
		{"database", c.database()},
		{"clock", c.clock()},
		{"late", c.late()},
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
			n.Name, terminal.State(state), terminal.Dash(n.Version), freeSlots(n.SlotsFree, n.Slots),
			strconv.Itoa(len(n.Partitions)), terminal.Time(n.StartedAt, nil), terminal.Time(n.ExpiresAt, nil), n.Session,
		}
	}
	r.Line("")
	return terminal.WriteTable(r.Out,
		[]string{"NODE", "STATE", "VERSION", "SLOTS FREE", "PARTITIONS", "STARTED UTC", "EXPIRES UTC", "SESSION"}, rows)
}

func freeSlots(free, all *int) string {
	if free == nil || all == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *free, *all)
}

func (c *clusterView) database() string {
	d := c.Database
	return fmt.Sprintf("PostgreSQL %s, %d of %d connections", d.Version, d.Connections, d.MaxConnections)
}

func (c *clusterView) clock() string {
	out := terminal.Moment(c.DatabaseTime, nil)
	if c.ClockInDoubt {
		out += terminal.Red.Render(" in doubt: nothing starts; see belfry clock")
	}
	return out
}

// late says since when the oldest run waits that nothing keeps from starting.
func (c *clusterView) late() string {
	var oldest *time.Time
	for _, o := range c.Owners {
		if o.OldestDueAt != nil && (oldest == nil || o.OldestDueAt.Before(*oldest)) {
			oldest = o.OldestDueAt
		}
	}
	switch {
	case oldest == nil && c.LagMore:
		return "unknown: there are too many live runs to read all"
	case oldest == nil || c.DatabaseTime == nil || c.DatabaseTime.Sub(*oldest) < time.Second:
		return "no"
	default:
		return terminal.Red.Render("the oldest run waits since " + terminal.Moment(oldest, nil))
	}
}
