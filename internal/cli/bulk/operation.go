package bulk

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// NewOperation returns the command that lists, follows, aborts and undoes operations.
func NewOperation() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "operation", Short: "List, follow, abort and undo operations on many jobs or runs",
		Long: `An operation is work on many jobs or runs that the server does in the background,
such as a redrive of all dead letters of a job. It survives the failure of any node.`,
		Example: `  belfry operation list
  belfry operation get op_06f8m2tq5dtk1e7n9q0c3s5v7g
  belfry operation abort op_06f8m2tq5dtk1e7n9q0c3s5v7g`,
	}, newOperationList(), newOperationGet(), newOperationItems(), newOperationAbort(), newOperationUndo()))
}

// operationView is an operation that the server works on in the background.
type operationView struct {
	ID        string            `json:"id"`
	Kind      string            `json:"kind"`
	State     string            `json:"state"`
	Filter    map[string]string `json:"filter"`
	Rate      int               `json:"rate"`
	Note      string            `json:"note"`
	Count     int64             `json:"count"`
	More      bool              `json:"more"`
	Done      int64             `json:"done"`
	Failed    int64             `json:"failed"`
	Problem   string            `json:"problem"`
	CreatedBy string            `json:"created_by"`
	CreatedAt *time.Time        `json:"created_at"`
	EndedAt   *time.Time        `json:"ended_at"`
}

// progress says how much is done, of how much.
func (o *operationView) progress() string {
	text := fmt.Sprintf("%d of %s", o.Done, o.size())
	if o.Failed > 0 {
		text += fmt.Sprintf(", %d failed", o.Failed)
	}
	return text
}

// size returns how many items there were, as far as they were counted.
func (o *operationView) size() string {
	if o.More {
		return fmt.Sprintf("more than %d", o.Count)
	}
	return strconv.FormatInt(o.Count, 10)
}

func operationPath(id string) string { return "/operations/" + belfry.PathEscape(id) }

func newOperationList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List operations, the newest first", Args: usage.Args(0, 0),
		Example: `  belfry operation list
  belfry operation list -o json`,
	}
	limit := remote.LimitFlag(cmd.Flags())
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: "/operations", Limit: *limit, None: "no operations", Name: "id",
			Headers: []string{"STARTED UTC", "KIND", "STATE", "DONE", "BY", "OPERATION"},
		}, func(o operationView) []string {
			return []string{
				terminal.Time(o.CreatedAt, nil), o.Kind, terminal.State(o.State), o.progress(), remote.ActorName(o.CreatedBy), o.ID,
			}
		})
	})
	return cmd
}

func newOperationGet() *cobra.Command {
	return &cobra.Command{
		Use: "get OPERATION", Short: "Show an operation and its progress", Args: usage.Args(1, 1),
		Example: `  belfry operation get op_06f8m2tq5dtk1e7n9q0c3s5v7g`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, operationPath(args[0]), nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				o, err := terminal.Decode[operationView](raw)
				if err != nil {
					return err
				}
				return terminal.WriteFields(r.Out, []terminal.Field{
					{"operation", terminal.Strong.Render(o.ID)},
					{"kind", o.Kind},
					{"state", terminal.State(o.State)},
					{"done", o.progress()},
					{"problem", o.Problem},
					{"filter", terminal.Pairs(o.Filter)},
					{"note", o.Note},
					{"rate", fmt.Sprintf("at most %d per second", o.Rate)},
					{"by", o.CreatedBy},
					{"started", terminal.Moment(o.CreatedAt, nil)},
					{"ended", terminal.Moment(o.EndedAt, nil)},
				})
			})
		}),
	}
}

func newOperationItems() *cobra.Command {
	cmd := &cobra.Command{
		Use: "items OPERATION", Short: "List the jobs or runs that an operation could not change", Args: usage.Args(1, 1),
		Example: `  belfry operation items op_06f8m2tq5dtk1e7n9q0c3s5v7g`,
	}
	limit := remote.LimitFlag(cmd.Flags())
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: operationPath(args[0]) + "/items", Limit: *limit, None: "none failed",
			Headers: []string{"AT UTC", "JOB", "ID", "WHY"},
		}, func(i itemView) []string {
			return []string{terminal.Time(i.At, nil), terminal.Dash(i.Name), i.Run + i.Job, i.Error}
		})
	})
	return cmd
}

// itemView is a job or a run that an operation could not change.
type itemView struct {
	Job   string     `json:"job"`
	Run   string     `json:"run"`
	Name  string     `json:"name"`
	Error string     `json:"error"`
	At    *time.Time `json:"at"`
}

func newOperationAbort() *cobra.Command {
	return &cobra.Command{
		Use: "abort OPERATION", Short: "Abort an operation; completed work stays done", Args: usage.Args(1, 1),
		Example: `  belfry operation abort op_06f8m2tq5dtk1e7n9q0c3s5v7g`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Post(ctx, operationPath(args[0])+":abort", nil)
			if err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Yellow.Render("aborted"), args[0])
		}),
	}
}

func newOperationUndo() *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use: "undo OPERATION", Short: "Restore the versions of jobs from before an operation", Args: usage.Args(1, 1),
		Long: `Restore the versions that jobs had before a relabel, a spread or an undo. It is an
operation itself. Jobs that were changed or deleted since are left alone, and
belfry operation items lists them.`,
		Example: `  belfry operation undo op_06f8m2tq5dtk1e7n9q0c3s5v7g --dry-run
  belfry operation undo op_06f8m2tq5dtk1e7n9q0c3s5v7g --note 'the wrong jobs'`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			return f.post(ctx, r, operationPath(args[0])+":undo", map[string]any{})
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count")
	flags.BoolVar(&f.detach, "detach", false, "do not wait until it is done")
	flags.IntVar(&f.rate, "rate", 0, "maximum number per second (default 50)")
	flags.StringVar(&f.note, "note", "", "why")
	return cmd
}
