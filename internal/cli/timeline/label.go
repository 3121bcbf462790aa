package timeline

import (
	"context"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// NewLabel returns belfry label.
func NewLabel() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "label", Short: "List the labels of jobs and their values",
		Example: `  belfry label list
  belfry label list team`,
	}, newLabelList()))
}

func newLabelList() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use: "list [KEY]", Short: "List the keys of labels, or the values of a key", Args: usage.Args(0, 1),
		Long: `List the keys of the labels of jobs, or the values of one key, with the number of
jobs that have them. Counts stop at 1,000 jobs and are printed as 1000+.`,
		Example: `  belfry label list
  belfry label list customer --prefix acme`,
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only values that begin with this; needs KEY")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		if len(args) == 0 {
			if prefix != "" {
				return usage.Errorf("--prefix needs a KEY; belfry label list lists the keys")
			}
			return listKeys(ctx, r)
		}
		return listValues(ctx, r, args[0], prefix)
	})
	return cmd
}

func listKeys(ctx context.Context, r *remote.Server) error {
	raw, err := r.Get(ctx, "/labels", nil)
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		v, err := terminal.Decode[belfry.LabelList](raw)
		if err != nil {
			return err
		}
		rows := make([][]string, len(v.Labels))
		for i, l := range v.Labels {
			rows[i] = []string{terminal.Clean(l.Key), capped(l.Values, l.MoreValues), capped(l.Jobs, l.More)}
		}
		return table(r, []string{"KEY", "VALUES", "JOBS"}, rows, v.Partial)
	})
}

func listValues(ctx context.Context, r *remote.Server, key, prefix string) error {
	query := remote.DropEmpty(url.Values{"prefix": {prefix}})
	raw, err := r.Get(ctx, "/labels/"+belfry.PathEscape(key), query)
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		v, err := terminal.Decode[belfry.LabelValueList](raw)
		if err != nil {
			return err
		}
		rows := make([][]string, len(v.Values))
		for i, x := range v.Values {
			rows[i] = []string{terminal.Dash(terminal.Clean(x.Value)), capped(x.Jobs, x.More)}
		}
		return table(r, []string{"VALUE", "JOBS"}, rows, v.Partial)
	})
}

func table(r *remote.Server, headers []string, rows [][]string, partial bool) error {
	if len(rows) == 0 {
		r.Note("none; belfry job edit JOB --label KEY=VALUE adds a label")
		return nil
	}
	if partial {
		r.Note("there are more")
	}
	return terminal.WriteTable(r.Out, headers, rows)
}

// capped formats a count that may have stopped.
func capped(n int64, more bool) string {
	if more {
		return strconv.FormatInt(n, 10) + "+"
	}
	return strconv.FormatInt(n, 10)
}
