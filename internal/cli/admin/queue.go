package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newQueue() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "queue", Short: "List, limit, pause and resume queues",
		Example: `  belfry queue list
  belfry queue set imports --max-running 50 --rate 100/s
  belfry queue pause imports`,
	}, newQueueList(), newQueueGet(), newQueueSet(), newQueuePause(), newQueueResume()))
}

type queueView struct {
	Name      string     `json:"name"`
	Paused    bool       `json:"paused"`
	PausedAt  *time.Time `json:"paused_at"`
	Note      string     `json:"note"`
	CreatedAt *time.Time `json:"created_at"`
	queueLimits
	Running *int64 `json:"running"`
	Waiting *int64 `json:"waiting"`
}

type queueLimits struct {
	MaxRunning int    `json:"max_running,omitempty"`
	Rate       string `json:"rate,omitempty"`
	Burst      int    `json:"burst,omitempty"`
}

// running returns how many runs are live, and the limit if there is one.
func (q *queueView) running() string {
	switch {
	case q.Running == nil:
		return "-"
	case q.MaxRunning > 0:
		return fmt.Sprintf("%d of %d", *q.Running, q.MaxRunning)
	default:
		return strconv.FormatInt(*q.Running, 10)
	}
}

func (q *queueView) state() string {
	if q.Paused {
		return "paused"
	}
	return "active"
}

func (q *queueView) waiting() string {
	if q.Waiting == nil {
		return "-"
	}
	return strconv.FormatInt(*q.Waiting, 10)
}

func newQueueList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List queues", Args: usage.Args(0, 0),
		Long: `List queues. RUNNING and WAITING are counted only for queues with limits; others
show "-". belfry run list --state due --queue QUEUE lists what waits in any queue.`,
		Example: `  belfry queue list
  belfry queue list -o json`,
	}
	limit := remote.LimitFlag(cmd.Flags())
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: "/queues", Limit: *limit,
			Headers: []string{"NAME", "STATE", "RUNNING", "WAITING", "RATE", "PAUSED UTC", "NOTE"},
		}, func(q queueView) []string {
			return []string{
				q.Name, terminal.State(q.state()), q.running(), q.waiting(), terminal.Dash(q.Rate),
				terminal.Time(q.PausedAt, nil), terminal.Dash(q.Note),
			}
		})
	})
	return cmd
}

func newQueueGet() *cobra.Command {
	return &cobra.Command{
		Use: "get QUEUE", Short: "Show a queue", Args: usage.Args(1, 1),
		Long: `Show a queue. Running and waiting runs are counted only for queues with limits;
belfry run list --state due --queue QUEUE lists what waits in any queue.`,
		Example: `  belfry queue get imports
  belfry queue get imports -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, queuePath(args[0]), nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				q, err := terminal.Decode[queueView](raw)
				if err != nil {
					return err
				}
				return terminal.WriteFields(r.Out, []terminal.Field{
					{"queue", terminal.Strong.Render(q.Name)},
					{"state", terminal.State(q.state())},
					{"note", q.Note},
					{"limits", q.String()},
					{"running", q.running()},
					{"waiting", q.waiting()},
					{"paused", terminal.Moment(q.PausedAt, nil)},
					{"created", terminal.Moment(q.CreatedAt, nil)},
				})
			})
		}),
	}
}

func queuePath(name string) string { return "/queues/" + belfry.PathEscape(name) }

func newQueueSet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set QUEUE", Short: "Set the limits of a queue, and create it if needed", Args: usage.Args(1, 1),
		Long: "Set the limits of a queue, and create it if it does not exist. Limits that you do not\ngive stay as they are.",
		Example: `  belfry queue set imports --max-running 50 --rate 100/s
  belfry queue set imports --max-running 0 --rate none`,
	}
	f := cmd.Flags()
	f.Int("max-running", 0, "maximum number of live runs; 0: no limit")
	f.String("rate", "",
		"maximum number of starts per second, minute or hour, such as 100/s, 30/m or 1000/h; none: no limit")
	f.Int("burst", 0, "with a rate: how many may start at once after a quiet period; 0: a tenth of one second's rate")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		return setQueue(ctx, r, args[0], f)
	})
	return cmd
}

func setQueue(ctx context.Context, r *remote.Server, name string, f *pflag.FlagSet) error {
	if !f.Changed("max-running") && !f.Changed("rate") && !f.Changed("burst") {
		return usage.Errorf("nothing to set; use --max-running, --rate or --burst")
	}
	now, err := r.Get(ctx, queuePath(name), nil)
	missing := belfry.CodeOf(err) == "not_found"
	if err != nil && !missing {
		return err
	}
	var q queueView
	if !missing {
		if err := json.Unmarshal(now, &q); err != nil {
			return err
		}
	}
	q.set(f)
	var raw []byte
	if missing {
		raw, err = r.Post(ctx, "/queues", struct {
			Name string `json:"name"`
			queueLimits
		}{name, q.queueLimits})
	} else {
		err = r.Call(ctx, belfry.Request{Method: http.MethodPut, Path: queuePath(name), Body: q.queueLimits}, &raw)
	}
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		r.Line("%s %s: %s", terminal.Green.Render("set"), name, q.queueLimits)
		return nil
	})
}

// set changes the limits whose flags were given.
func (l *queueLimits) set(f *pflag.FlagSet) {
	if f.Changed("max-running") {
		l.MaxRunning, _ = f.GetInt("max-running")
	}
	if f.Changed("burst") {
		l.Burst, _ = f.GetInt("burst")
	}
	if f.Changed("rate") {
		if l.Rate, _ = f.GetString("rate"); l.Rate == "none" || l.Rate == "0" {
			l.Rate, l.Burst = "", 0
		}
	}
}

func (l queueLimits) String() string {
	var parts []string
	if l.MaxRunning > 0 {
		parts = append(parts, fmt.Sprintf("at most %d running", l.MaxRunning))
	}
	if l.Rate != "" {
		parts = append(parts, "at most "+l.Rate)
	}
	if parts == nil {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

func newQueuePause() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause QUEUE", Short: "Start no more runs of a queue", Args: usage.Args(1, 1),
		Example: `  belfry queue pause imports --note 'the warehouse is down'`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Post(ctx, queuePath(args[0])+":pause", map[string]string{"note": note})
			if err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Yellow.Render("paused"), args[0])
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for those who wonder later")
	return cmd
}

func newQueueResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "Let a paused queue start runs again", Args: usage.Args(1, 1),
		Example: `  belfry queue resume imports`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Post(ctx, queuePath(args[0])+":resume", nil)
			if err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Green.Render("resumed"), args[0])
		}),
	}
}
