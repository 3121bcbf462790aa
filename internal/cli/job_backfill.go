package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// backfillParams is the body of a backfill request.
type backfillParams struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Pace   string `json:"pace,omitempty"`
	Max    int    `json:"max,omitempty"`
	Again  bool   `json:"again,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// backfilled is the response to a backfill request.
type backfilled struct {
	Runs         int64      `json:"runs"`
	Existing     int64      `json:"existing"`
	FirstDueAt   *time.Time `json:"first_due_at"`
	LastDueAt    *time.Time `json:"last_due_at"`
	ContinueFrom *time.Time `json:"continue_from"`
	DryRun       bool       `json:"dry_run"`
}

func newJobBackfill() *cobra.Command {
	var body backfillParams
	var wait bool
	cmd := &cobra.Command{
		Use: "backfill JOB --from TIME --to TIME", Short: "Run the occurrences of a time that has passed",
		Args: usage.Args(1, 1),
		Long: `Run the occurrences that the job's schedule has in a time that has passed. Those
that ran already are left out unless --again is set. With --dry-run nothing runs,
and their number is printed.

With --wait it shows how far they are until all have ended, and prints their
outcomes. Ctrl-C ends the waiting, not the runs.`,
		Example: `  belfry job backfill report --from 2026-01-01 --to 2026-02-01 --dry-run
  belfry job backfill report --from 2026-01-01 --to 2026-02-01 --pace 10s --wait`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			if body.From == "" || body.To == "" {
				return usage.Errorf("say which time: --from TIME --to TIME, such as --from 2026-01-01 --to 2026-02-01")
			}
			raw, err := r.Post(ctx, remote.JobPath(args[0])+":backfill", body)
			if err != nil {
				return err
			}
			done, err := terminal.Decode[backfilled](raw)
			if err != nil {
				return err
			}
			if !wait || body.DryRun || done.Runs == 0 {
				return r.Show(raw, func() error {
					showBackfill(r, args[0], done)
					return nil
				})
			}
			return awaitBackfill(ctx, r, args[0], done)
		}),
	}
	f := cmd.Flags()
	usage.TimeFlag(f, &body.From, "from", "the first due time")
	usage.TimeFlag(f, &body.To, "to", "before this due time")
	f.StringVar(&body.Pace, "pace", "", "the distance at which the runs start, such as 10s (default 1s)")
	f.IntVar(&body.Max, "max", 0, "maximum number of runs, the oldest first (default 10000)")
	f.BoolVar(&body.Again, "again", false, "also those that ran already")
	f.BoolVar(&body.DryRun, "dry-run", false, "only say how many")
	f.BoolVar(&wait, "wait", false, "wait until they have ended")
	return cmd
}

func showBackfill(r *remote.Server, job string, b backfilled) {
	word := terminal.Green.Render("backfills")
	if b.DryRun {
		word = terminal.Yellow.Render("would backfill")
	}
	text := fmt.Sprintf("%s %d runs of %s", word, b.Runs, terminal.Clean(job))
	if b.FirstDueAt != nil {
		text += fmt.Sprintf(", due from %s to %s UTC",
			terminal.Time(b.FirstDueAt, nil), terminal.Time(b.LastDueAt, nil))
	}
	if b.Existing > 0 {
		text += fmt.Sprintf("; %d ran already, or are to run (--again)", b.Existing)
	}
	r.Line("%s", text)
	b.showMore(r)
}

// showMore prints how to continue a backfill that was too large for one request.
func (b *backfilled) showMore(r *remote.Server) {
	if b.ContinueFrom != nil {
		r.Line("there are more: go on with --from %s", b.ContinueFrom.UTC().Format(time.RFC3339Nano))
	}
}

// awaitBackfill waits until no run of a backfill is live.
func awaitBackfill(ctx context.Context, r *remote.Server, job string, b backfilled) error {
	within := url.Values{
		"due_from":  {b.FirstDueAt.UTC().Format(time.RFC3339Nano)},
		"due_to":    {b.LastDueAt.Add(time.Microsecond).UTC().Format(time.RFC3339Nano)},
		"page_size": {strconv.Itoa(remote.MaxPage)},
	}
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), "backfill", b.Runs)
	defer bar.End()
	for {
		live, err := countRuns(ctx, r, job, within, liveStates)
		left := int64(0)
		for _, n := range live {
			left += n
		}
		switch {
		case ctx.Err() != nil:
			bar.End()
			return fmt.Errorf("no longer waited for; the runs go on at the server. belfry job runs %s --state pending"+
				" lists those that have not begun, and belfry run cancel ends one", shellQuote(job))
		case err != nil:
			return err
		case left == 0:
			bar.End()
			return showEnded(ctx, r, job, within, b)
		}
		bar.Set(b.Runs-left, b.Runs)
		remote.Pause(ctx, remote.PollPause+time.Duration(left)*time.Millisecond)
	}
}

// countRuns counts the backfilled runs of a job by state.
func countRuns(
	ctx context.Context, r *remote.Server, job string, within url.Values, states []string,
) (map[string]int64, error) {
	query := maps.Clone(within)
	query.Set("state", strings.Join(states, ","))
	out := map[string]int64{}
	seen := map[string]bool{}
	for raw, err := range r.List(ctx, remote.JobPath(job)+"/runs", query) {
		if err != nil {
			return out, err
		}
		var v runView
		if err := json.Unmarshal(raw, &v); err != nil {
			return out, err
		}
		if v.Origin == "backfill" && !seen[v.ID] { // the newest entry of a run comes first
			seen[v.ID] = true
			out[v.State]++
		}
	}
	return out, nil
}

// showEnded prints how many runs of a backfill ended in which state.
func showEnded(ctx context.Context, r *remote.Server, job string, within url.Values, b backfilled) error {
	ended, err := countRuns(ctx, r, job, within, endStates)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(struct {
		backfilled
		Ended map[string]int64 `json:"ended"`
	}{b, ended})
	if err != nil {
		return err
	}
	err = r.Show(raw, func() error {
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(ended)) {
			parts = append(parts, fmt.Sprintf("%d %s", ended[state], terminal.State(state)))
		}
		r.Line("backfilled %d runs of %s: %s", b.Runs, terminal.Clean(job), strings.Join(parts, ", "))
		b.showMore(r)
		return nil
	})
	if err == nil && ended["failed"] > 0 {
		return fmt.Errorf("%d runs failed; belfry dlq list --job %s lists them", ended["failed"], shellQuote(job))
	}
	return err
}
