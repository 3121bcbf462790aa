package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/bulk"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

func newRun() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "run", Short: "Look at runs, cancel them, run them again",
		Example: `  belfry run list --state failed
  belfry run get run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run logs -f run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
	}, newRunList(), newRunGet(), newRunLogs(), newRunCancel(), newRunRetry()))
}

// runView is a run, as far as it is printed for people.
type runView struct {
	ID        string     `json:"id"`
	Job       string     `json:"job"`
	JobName   string     `json:"job_name"`
	Queue     string     `json:"queue"`
	State     string     `json:"state"`
	Origin    string     `json:"origin"`
	DueAt     *time.Time `json:"due_at"`
	RunAt     *time.Time `json:"run_at"`
	StartedAt *time.Time `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	LastDueAt *time.Time `json:"last_due_at"`
	Count     int64      `json:"count"`
	Attempt   int        `json:"attempt"`
	Version   int        `json:"version"`
	Reason    string     `json:"reason"`
	Status    int        `json:"status"`
	Message   string     `json:"message"`
	Node      string     `json:"node"`
	Worker    string     `json:"worker"`
	Dead      bool       `json:"dead_letter"`
	Percent   *int       `json:"percent"`
	Progress  string     `json:"progress"`

	Result  json.RawMessage `json:"result"`
	Payload json.RawMessage `json:"payload"`
}

// reference returns the short form of the run, see remote.RunReference.
func (v *runView) reference() string {
	if v.DueAt == nil {
		return v.ID
	}
	return remote.RunReference(cmp.Or(v.JobName, v.Job), v.ID, *v.DueAt)
}

// progress returns the progress that the worker reported.
func (v *runView) progress() string {
	text := v.Progress
	if v.Percent != nil {
		text = strings.TrimSuffix(fmt.Sprintf("%d %%, %s", *v.Percent, text), ", ")
	}
	return text
}

// outcome says why a run has its state. A table cuts it if the terminal is too narrow.
func (v *runView) outcome() string {
	text := v.Message
	if v.Reason != "" {
		text = v.Reason
		if v.Message != "" {
			text += ": " + v.Message
		}
	}
	if v.Count > 1 {
		text += " (" + strconv.FormatInt(v.Count, 10) + " occurrences)"
	}
	return terminal.Dash(text)
}

// took returns how long the last attempt took.
func (v *runView) took() string {
	if v.StartedAt == nil || v.EndedAt == nil {
		return "-"
	}
	return v.EndedAt.Sub(*v.StartedAt).Round(time.Millisecond).String()
}

// The states of runs.
var (
	liveStates = []string{"pending", "retrying", "due", "running", "accepted"}
	endStates  = []string{"succeeded", "failed", "cancelled", "skipped"}
)

// runFilter holds the flags that select runs.
type runFilter struct {
	states                                            *usage.Choice
	reason, queue, dueFrom, dueTo, endedFrom, endedTo string

	limit *int // only for lists
}

func (v *runFilter) add(cmd *cobra.Command) {
	f := cmd.Flags()
	v.states = usage.NewChoice(f, "state", "%s; may be repeated", slices.Concat(liveStates, endStates)...)
	v.states.Repeat = true
	f.StringVar(&v.reason, "reason", "", "the reason it ended with, such as overlap, or several with commas")
	f.StringVar(&v.queue, "queue", "", "name of a queue")
	usage.TimeFlag(f, &v.dueFrom, "due-from", "due at this time or later")
	usage.TimeFlag(f, &v.dueTo, "due-to", "due before this time")
	usage.TimeFlag(f, &v.endedFrom, "ended-from", "ended at this time or later")
	usage.TimeFlag(f, &v.endedTo, "ended-to", "ended before this time")
}

func (v *runFilter) query() url.Values {
	return url.Values{
		"state": {v.states.String()}, "reason": {v.reason}, "queue": {v.queue},
		"due_from": {v.dueFrom}, "due_to": {v.dueTo}, "ended_from": {v.endedFrom}, "ended_to": {v.endedTo},
	}
}

// The columns of a list of runs.
var (
	runHeaders = []string{"RUN", "STATE", "ATTEMPT", "TOOK", "WHY"}
	runWide    = []string{"ORIGIN", "QUEUE", "STARTED UTC", "ENDED UTC", "NODE OR WORKER", "ID"}
)

// row returns the cells of runHeaders and runWide.
func (v *runView) row() []string {
	return []string{
		v.reference(), terminal.State(v.State), terminal.Dash(number(v.Attempt)), v.took(), v.outcome(),
		v.Origin, v.Queue, terminal.Time(v.StartedAt, nil), terminal.Time(v.EndedAt, nil), terminal.Dash(cmp.Or(v.Node, v.Worker)), v.ID,
	}
}

func newRunList() *cobra.Command {
	var f runFilter
	var named, since string
	cmd := &cobra.Command{
		Use: "list", Short: "List the runs of all jobs, the newest first", Args: usage.Args(0, 0),
		Long: `List runs that have ended, the newest first. With --job, live runs of the job are
listed too. With --state pending, retrying, due, running or accepted, live runs are listed.
RUN is the job and the due time in UTC; other commands accept it as it is.`,
		Example: `  belfry run list --state failed --state skipped
  belfry run list --job report --since 1h
  belfry run list --state running --watch
  belfry run list --ended-from 2026-01-31T00:00:00Z --limit 0 -o json`,
	}
	f.limit = remote.LimitFlag(cmd.Flags())
	f.add(cmd)
	cmd.Flags().StringVar(&named, "job", "", "id or name of a job")
	cmd.Flags().StringVar(&since, "since", "",
		"ended in the last 1h, 30m or 7d; with --job, or the state of live runs: due in that time")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		query := f.query()
		if err := f.since(query, since, named != ""); err != nil {
			return err
		}
		id, err := r.JobID(ctx, named)
		if err != nil {
			return err
		}
		query.Set("job", id)
		return remote.List(ctx, r, remote.Listing{
			Path: "/runs", Limit: *f.limit, Query: query, Name: "id", Headers: runHeaders, Wide: runWide,
		}, func(v runView) []string { return v.row() })
	})
	return cmd
}

// since limits a query to the time before now. Live runs have not ended, so their due time counts.
func (v *runFilter) since(query url.Values, text string, byDue bool) error {
	if text == "" {
		return nil
	}
	var d job.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil || d <= 0 {
		return usage.Errorf("--since %s: write a duration such as 30m, 1h or 7d", text)
	}
	live := slices.ContainsFunc(v.states.Values(), func(s string) bool { return slices.Contains(liveStates, s) })
	field := "ended_from"
	if byDue || live {
		field = "due_from"
	}
	if query.Get(field) != "" {
		return usage.Errorf("use --since or --%s, not both", strings.ReplaceAll(field, "_", "-"))
	}
	query.Set(field, clock.Now().Add(-time.Duration(d)).UTC().Format(time.RFC3339Nano))
	return nil
}

// runDetail is a run with its attempts.
type runDetail struct {
	runView
	TraceID  string `json:"trace_id"`
	TraceURL string `json:"trace_url"`
	Attempts []struct {
		Attempt   int        `json:"attempt"`
		State     string     `json:"state"`
		StartedAt *time.Time `json:"started_at"`
		EndedAt   *time.Time `json:"ended_at"`
		Status    int        `json:"status"`
		Message   string     `json:"message"`
		Node      string     `json:"node"`
		Worker    string     `json:"worker"`
	} `json:"attempts"`
}

// showRun prints a page about a run, with times in the zone of its job.
func showRun(ctx context.Context, r *remote.Server, raw []byte) error {
	return r.Show(raw, func() error {
		v, err := terminal.Decode[runDetail](raw)
		if err != nil {
			return err
		}
		zone, err := zoneOf(ctx, r, v.Job)
		if err != nil {
			return err
		}
		dead := ""
		if v.Dead {
			dead = "waits for belfry dlq redrive or discard"
		}
		startsFrom := "" // it differs from the due time by jitter or a retry delay
		if v.RunAt != nil && v.DueAt != nil && !v.RunAt.Equal(*v.DueAt) {
			startsFrom = terminal.Moment(v.RunAt, zone)
		}
		err = terminal.WriteFields(r.Out, []terminal.Field{
			{"run", terminal.Strong.Render(v.reference())},
			{"id", v.ID},
			{"job", cmp.Or(v.JobName, v.Job+" (deleted)")},
			{"state", terminal.State(v.State)},
			{"progress", v.progress()},
			{"why", v.Reason},
			{"message", v.Message},
			{"dead letter", dead},
			{"origin", v.Origin},
			{"due", terminal.Moment(v.DueAt, zone)},
			{"starts from", startsFrom},
			{"started", terminal.Moment(v.StartedAt, zone)},
			{"ended", terminal.Moment(v.EndedAt, zone)},
			{"payload", terminal.Truncate(string(v.Payload), 1000)},
			{"result", terminal.Truncate(string(v.Result), 1000)},
			{"queue", v.Queue},
			{"job version", strconv.Itoa(v.Version)},
			{"trace", cmp.Or(v.TraceURL, v.TraceID)},
		})
		if err != nil || len(v.Attempts) == 0 {
			return err
		}
		rows := make([][]string, len(v.Attempts))
		for i, a := range v.Attempts {
			rows[i] = []string{
				strconv.Itoa(a.Attempt), terminal.State(a.State),
				terminal.Time(a.StartedAt, zone), terminal.Time(a.EndedAt, zone),
				terminal.Dash(number(a.Status)), terminal.Dash(cmp.Or(a.Node, a.Worker)), terminal.Dash(a.Message),
			}
		}
		_, _ = fmt.Fprintln(r.Out)
		headers := []string{"ATTEMPT", "STATE", "STARTED", "ENDED", "STATUS", "NODE OR WORKER", "MESSAGE"}
		return terminal.WriteTable(r.Out, headers, rows)
	})
}

func newRunGet() *cobra.Command {
	return &cobra.Command{
		Use: "get RUN", Short: "Show a run and its attempts", Args: usage.Args(1, 1),
		Example: `  belfry run get run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, remote.RunPath(args[0]), nil)
			if err != nil {
				return err
			}
			return showRun(ctx, r, raw)
		}),
	}
}

func newRunCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel [RUN]", Short: "Cancel a live run, or all that match", Args: usage.Args(0, 1),
		Long: `Cancel a live run. One that has not started will not start. Of one that has, what
it reports is ignored; its target may still finish what it began.

With a filter or --all, the server cancels all that match in the background, at --rate
per second: those that are due by now, unless --due-to says otherwise.`,
		Example: `  belfry run cancel run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run cancel --job report --state due --dry-run`,
	}
	bulk.YesFlag(cmd)
	manyRuns(cmd, "cancel", terminal.Yellow.Render("cancelled"), nil)
	return cmd
}

// manyRuns adds filters to a command, and what it does: the verb, to a run or to all that match. check looks at the
// filter first; may be nil.
func manyRuns(cmd *cobra.Command, verb, done string, check func(*runFilter) error) {
	var f runFilter
	var named string
	var many bulk.Flags
	f.add(cmd)
	cmd.Flags().StringVar(&named, "job", "", "id or name of a job")
	many.Add(cmd, "runs")
	one := runVerb(verb, done)
	all := remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		filter := map[string]any{}
		for field, values := range remote.DropEmpty(f.query()) {
			filter[field] = values[0]
		}
		if states := f.states.Values(); len(states) > 0 {
			filter["state"] = states
		}
		if named != "" {
			id, err := r.JobID(ctx, named)
			if err != nil {
				return err
			}
			filter["job"] = id
		}
		if check != nil && len(args) == 0 {
			if err := check(&f); err != nil {
				return err
			}
		}
		if done, err := many.RunFilter(ctx, r, args, verb, filter); done {
			return err
		}
		return one(cmd, args)
	})
	cmd.RunE = all
}

// runVerb returns the RunE of a command that does something to one run.
func runVerb(verb, done string) func(*cobra.Command, []string) error {
	return remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		raw, err := r.Post(ctx, remote.RunPath(args[0])+":"+verb, nil)
		if err != nil {
			return err
		}
		return r.ShowDone(raw, done, args[0])
	})
}
