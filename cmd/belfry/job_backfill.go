package main

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
)

type backfillOrder struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Pace   string `json:"pace,omitempty"`
	Max    int    `json:"max,omitempty"`
	Again  bool   `json:"again,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// backfilled is what one request came to.
type backfilled struct {
	Runs       int64      `json:"runs"`
	Known      int64      `json:"known"`
	FirstDueAt *time.Time `json:"first_due_at"`
	LastDueAt  *time.Time `json:"last_due_at"`
	GoOnFrom   *time.Time `json:"go_on_from"`
	DryRun     bool       `json:"dry_run"`
}

func newJobBackfill() *cobra.Command {
	var body backfillOrder
	var wait bool
	cmd := &cobra.Command{
		Use: "backfill JOB --from TIME --to TIME", Short: "Run the occurrences of a time that has passed", Args: wants(1, 1),
		Long: `Run the occurrences that the job's schedule has in a time that has passed. Those
that ran already are left out unless --again is set. With --dry-run nothing runs,
and their number is printed.

With --wait it shows how far they are until all have ended, and prints what they came
to. Ctrl-C ends the waiting, not the runs.`,
		Example: `  belfry job backfill report --from 2026-01-01 --to 2026-02-01 --dry-run
  belfry job backfill report --from 2026-01-01 --to 2026-02-01 --pace 10s --wait`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			if body.From == "" || body.To == "" {
				return usagef("say which time: --from TIME --to TIME, such as --from 2026-01-01 --to 2026-02-01")
			}
			raw, err := r.post(ctx, jobPath(args[0])+":backfill", body)
			if err != nil {
				return err
			}
			done, err := view[backfilled](raw)
			if err != nil {
				return err
			}
			if !wait || body.DryRun || done.Runs == 0 {
				return r.show(raw, func() error { return r.showBackfill(args[0], done) })
			}
			return r.awaitBackfill(ctx, args[0], done)
		}),
	}
	f := cmd.Flags()
	timeFlag(f, &body.From, "from", "the first due time")
	timeFlag(f, &body.To, "to", "before this due time")
	f.StringVar(&body.Pace, "pace", "", "the distance at which the runs start, such as 10s (default 1s)")
	f.IntVar(&body.Max, "max", 0, "at most so many, the oldest (default 10000)")
	f.BoolVar(&body.Again, "again", false, "also those that ran already")
	f.BoolVar(&body.DryRun, "dry-run", false, "only say how many")
	f.BoolVar(&wait, "wait", false, "wait until they have ended")
	return cmd
}

func (r *remote) showBackfill(job string, b backfilled) error {
	word := green.Render("backfills")
	if b.DryRun {
		word = yellow.Render("would backfill")
	}
	text := fmt.Sprintf("%s %d runs of %s", word, b.Runs, clean(job))
	if b.FirstDueAt != nil {
		text += fmt.Sprintf(", due from %s to %s UTC", short(b.FirstDueAt, nil), short(b.LastDueAt, nil))
	}
	if b.Known > 0 {
		text += fmt.Sprintf("; %d ran already, or are to run (--again)", b.Known)
	}
	r.say("%s", text)
	if b.GoOnFrom != nil {
		r.say("there are more: go on with --from %s", b.GoOnFrom.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// awaitBackfill watches the runs of a backfill until none is live.
func (r *remote) awaitBackfill(ctx context.Context, job string, b backfilled) error {
	within := url.Values{
		"due_from":   {b.FirstDueAt.UTC().Format(time.RFC3339Nano)},
		"due_before": {b.LastDueAt.Add(time.Microsecond).UTC().Format(time.RFC3339Nano)},
		"page_size":  {strconv.Itoa(maxPage)},
	}
	bar := newProgress(r.cmd.ErrOrStderr(), "backfill", b.Runs)
	defer bar.end()
	for {
		live, err := r.count(ctx, job, within, "pending,due,running,waiting")
		left := live["pending"] + live["due"] + live["running"] + live["waiting"]
		switch {
		case ctx.Err() != nil:
			bar.end()
			return fmt.Errorf("no longer waited for; the runs go on at the server. belfry job runs %s --state pending lists those that have not begun, and belfry run cancel ends one", shellQuote(job))
		case err != nil:
			return err
		case left == 0:
			bar.end()
			return r.showEnded(ctx, job, within, b)
		}
		bar.set(b.Runs-left, b.Runs)
		pause(ctx, pollPause+time.Duration(left)*time.Millisecond)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// count counts the backfilled runs of a job by state.
func (r *remote) count(ctx context.Context, job string, within url.Values, states string) (map[string]int64, error) {
	query := maps.Clone(within)
	query.Set("state", states)
	out := map[string]int64{}
	seen := map[string]bool{}
	for raw, err := range r.List(ctx, jobPath(job)+"/runs", query) {
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

func (r *remote) showEnded(ctx context.Context, job string, within url.Values, b backfilled) error {
	ended, err := r.count(ctx, job, within, "succeeded,failed,cancelled,skipped")
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
	err = r.show(raw, func() error {
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(ended)) {
			parts = append(parts, fmt.Sprintf("%d %s", ended[state], stateStyle(state)))
		}
		r.say("backfilled %d runs of %s: %s", b.Runs, clean(job), strings.Join(parts, ", "))
		if b.GoOnFrom != nil {
			r.say("there are more: go on with --from %s", b.GoOnFrom.UTC().Format(time.RFC3339Nano))
		}
		return nil
	})
	if err == nil && ended["failed"] > 0 {
		return fmt.Errorf("%d runs failed; belfry dlq list --job %s lists them", ended["failed"], shellQuote(job))
	}
	return err
}
