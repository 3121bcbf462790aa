package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

type workerView struct {
	ID          string     `json:"id"`
	Worker      string     `json:"worker"`
	Handlers    []string   `json:"handlers"`
	Slots       *int       `json:"slots"`
	Running     int64      `json:"running"`
	RunningMore bool       `json:"running_more"`
	StartedAt   *time.Time `json:"started_at"`
	HeartbeatAt *time.Time `json:"heartbeat_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	Silent      bool       `json:"silent"`
}

// running returns how many runs the worker has, of how many at most.
func (w *workerView) running() string {
	out := strconv.FormatInt(w.Running, 10)
	if w.RunningMore {
		out += "+"
	}
	if w.Slots != nil {
		out += " of " + strconv.Itoa(*w.Slots)
	}
	return out
}

func (w *workerView) state() string {
	if w.Silent {
		return terminal.Red.Render("silent")
	}
	return terminal.State("active")
}

func newQueueWorkers() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workers QUEUE", Short: "List the workers of a queue", Args: usage.Args(1, 1),
		Long: `List the worker processes that claim runs of a queue: their handlers, the runs that
they have, and when they were heard last. A worker is silent if two heartbeats are
missing. When its session expires, its runs are lost and retried by others.`,
		Example: `  belfry queue workers imports
  belfry queue workers imports --watch`,
	}
	limit := remote.LimitFlag(cmd.Flags())
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: queuePath(args[0]) + "/sessions", Limit: *limit, Name: "worker", None: "the queue has no workers",
			Headers: []string{"WORKER", "STATE", "RUNNING", "HANDLERS", "HEARTBEAT UTC", "EXPIRES UTC", "STARTED UTC"},
			Wide:    []string{"SESSION"},
		}, func(w workerView) []string {
			return []string{
				w.Worker, w.state(), w.running(), terminal.Dash(strings.Join(w.Handlers, ", ")),
				terminal.Time(w.HeartbeatAt, nil), terminal.Time(w.ExpiresAt, nil), terminal.Time(w.StartedAt, nil), w.ID,
			}
		})
	})
	return cmd
}
