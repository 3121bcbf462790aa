package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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
		Use: "queue", Short: "List, limit, pause and resume queues, and list their workers",
		Example: `  belfry queue list
  belfry queue workers imports
  belfry queue set imports --max-running 50 --rate 100/s
  belfry queue pause imports`,
	}, newQueueList(), newQueueGet(), newQueueWorkers(), newQueueSet(), newQueuePause(), newQueueResume()))
}

type queueView struct {
	Name      string     `json:"name"`
	Paused    bool       `json:"paused"`
	PausedAt  *time.Time `json:"paused_at"`
	Note      string     `json:"note"`
	CreatedAt *time.Time `json:"created_at"`
	queueLimits
	Counts *queueCounts `json:"counts"`
}

type queueCounts struct {
	Due         int64      `json:"due"`
	OldestDueAt *time.Time `json:"oldest_due_at"`
	Running     int64      `json:"running"`
	Waiting     int64      `json:"waiting"`
	Planned     int64      `json:"planned_1m"`
	Workers     int64      `json:"workers"`
	Orphans     []string   `json:"handlers_without_worker"`
	More        bool       `json:"more"`
	Desired     *int64     `json:"desired_slots"`
}

type queueLimits struct {
	MaxRunning int    `json:"max_running,omitempty"`
	Rate       string `json:"rate,omitempty"`
	Burst      int    `json:"burst,omitempty"`
}

// count formats a number that may be a lower bound.
func (q *queueView) count(n func(*queueCounts) int64) string {
	switch {
	case q.Counts == nil: // a server that does not count
		return "-"
	case q.Counts.More:
		return strconv.FormatInt(n(q.Counts), 10) + "+"
	default:
		return strconv.FormatInt(n(q.Counts), 10)
	}
}

func (q *queueView) due() string     { return q.count(func(c *queueCounts) int64 { return c.Due }) }
func (q *queueView) waiting() string { return q.count(func(c *queueCounts) int64 { return c.Waiting }) }

func (q *queueView) planned() string { return q.count(func(c *queueCounts) int64 { return c.Planned }) }

// running returns how many runs are live, and the limit if there is one.
func (q *queueView) running() string {
	n := q.count(func(c *queueCounts) int64 { return c.Running })
	if q.MaxRunning > 0 {
		return fmt.Sprintf("%s of %d", n, q.MaxRunning)
	}
	return n
}

func (q *queueView) oldest() *time.Time {
	if q.Counts == nil {
		return nil
	}
	return q.Counts.OldestDueAt
}

// workers returns the number of workers, in red if due runs wait for one that is not there.
func (q *queueView) workers() string {
	switch {
	case q.Counts == nil:
		return "-"
	case len(q.Counts.Orphans) > 0:
		return terminal.Red.Render(strconv.FormatInt(q.Counts.Workers, 10) + "!")
	default:
		return strconv.FormatInt(q.Counts.Workers, 10)
	}
}

// desired returns how many slots its workers need; empty: the server does not say, or it is none.
func (q *queueView) desired() string {
	if q.Counts == nil || q.Counts.Desired == nil || *q.Counts.Desired == 0 {
		return ""
	}
	return strconv.FormatInt(*q.Counts.Desired, 10)
}

// orphans says which handlers wait for a worker.
func (q *queueView) orphans() string {
	if q.Counts == nil || len(q.Counts.Orphans) == 0 {
		return ""
	}
	return terminal.Red.Render("due runs wait, but no worker asks for handler " + strings.Join(q.Counts.Orphans, ", "))
}

func (q *queueView) state() string {
	if q.Paused {
		return "paused"
	}
	return "active"
}

var includeCounts = url.Values{"include": {"counts"}}

func newQueueList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List queues with their live runs and workers", Args: usage.Args(0, 0),
		Long: `List queues, with their live runs: DUE may start and have not, WAITING are those of
them that wait for a permit, and NEXT MIN may start within a minute. A number with +
is a lower bound: there are more live runs than the server counts. WORKERS with !:
due runs wait, but no worker asks for their handler; belfry queue get names it.`,
		Example: `  belfry queue list
  belfry queue list -o json`,
	}
	limit := remote.LimitFlag(cmd.Flags())
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: "/queues", Limit: *limit, Query: includeCounts,
			Headers: []string{"NAME", "STATE", "DUE", "OLDEST DUE UTC", "RUNNING", "WAITING", "NEXT MIN", "WORKERS", "RATE", "NOTE"},
			Wide:    []string{"PAUSED UTC"},
		}, func(q queueView) []string {
			return []string{
				q.Name, terminal.State(q.state()), q.due(), terminal.Time(q.oldest(), nil), q.running(), q.waiting(),
				q.planned(), q.workers(), terminal.Dash(q.Rate), terminal.Dash(q.Note), terminal.Time(q.PausedAt, nil),
			}
		})
	})
	return cmd
}

func newQueueGet() *cobra.Command {
	return &cobra.Command{
		Use: "get QUEUE", Short: "Show a queue", Args: usage.Args(1, 1),
		Long: `Show a queue, with its live runs and workers. A number with + is a lower bound:
there are more live runs than the server counts.`,
		Example: `  belfry queue get imports
  belfry queue get imports -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, queuePath(args[0]), includeCounts)
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
					{"due", q.due()},
					{"oldest due", terminal.Moment(q.oldest(), nil)},
					{"running", q.running()},
					{"waiting", q.waiting()},
					{"next minute", q.planned()},
					{"workers", q.workers()},
					{"slots needed", q.desired()},
					{"no worker", q.orphans()},
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
