package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// maxRetried is the maximum number of runs of one window. All of them are listed before the first is
// retried, because a retried run that ends again would be listed again.
const maxRetried = 1_000_000

func newRunRetry() *cobra.Command {
	var f runFilter
	var job string
	cmd := &cobra.Command{
		Use: "retry [RUN]", Short: "Run an ended run, or all of a window, again", Args: usage.Args(0, 1),
		Long: `Run an ended run again, under its old id: its target gets the same idempotency key
as before.

Without a run, all that the filters leave are run again, one after the other: for a
target that has lost what it had, such as a broker that was wiped. Say in which
--state they ended, and from when. Those that cannot be run again are counted:
their job is deleted, they are live already or have run again and ended otherwise or
later than the window says, or they were triggered, as the payload of a trigger is
kept for dead letters alone.`,
		Example: `  belfry run retry run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run retry --state succeeded --ended-from 2026-01-31T08:00:00Z --ended-to 2026-01-31T09:30:00Z --queue events`,
	}
	f.add(cmd)
	cmd.Flags().StringVar(&job, "job", "", "id or name of a job")
	one := runVerb("retry", terminal.Green.Render("runs again"))
	all := remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		query := f.query()
		query.Set("job", job)
		return retryAll(ctx, r, query)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		live := slices.ContainsFunc(f.states.Values(), func(s string) bool { return slices.Contains(liveStates, s) })
		switch filtered := job != "" || len(remote.DropEmpty(f.query())) > 0; {
		case len(args) > 0 && filtered:
			return usage.Errorf("name a run or a filter, not both")
		case len(args) > 0:
			return one(cmd, args)
		case f.states.String() == "" || live || f.dueFrom+f.endedFrom == "":
			return usage.Errorf("which ones? Name a run, or say how they ended (--state succeeded)" +
				" and from when (--ended-from or --due-from)")
		}
		return all(cmd, args)
	}
	return cmd
}

// window holds the runs of a list, each once.
type window struct {
	ids     []string
	attempt map[string]int // the last attempt of each run
	last    time.Time      // when the last of them ended
}

// before returns an end of the window that excludes runs that end from now on, such as retried ones.
func (w *window) before(query url.Values) string {
	return cmp.Or(query.Get("ended_to"), w.last.Add(time.Microsecond).UTC().Format(time.RFC3339Nano))
}

// listWindow lists the ended runs of a query.
func listWindow(ctx context.Context, r *remote.Server, query url.Values) (*window, error) {
	w := &window{attempt: map[string]int{}}
	for raw, err := range r.List(ctx, "/runs", query) {
		if err != nil {
			return nil, err
		}
		v, err := terminal.Decode[runView](raw)
		if err != nil {
			return nil, err
		}
		if _, seen := w.attempt[v.ID]; !seen { // a run that was retried before has ended twice
			w.ids = append(w.ids, v.ID)
		}
		w.attempt[v.ID] = max(w.attempt[v.ID], v.Attempt)
		if v.EndedAt != nil && v.EndedAt.After(w.last) {
			w.last = *v.EndedAt
		}
		if len(w.ids) > maxRetried {
			return nil, fmt.Errorf("there are more than %d; take a smaller window", maxRetried)
		}
	}
	return w, nil
}

// retryAll retries all runs of a query.
func retryAll(ctx context.Context, r *remote.Server, query url.Values) error {
	query = remote.DropEmpty(query)
	query.Set("page_size", strconv.Itoa(remote.MaxPage))
	again, err := listWindow(ctx, r, query)
	if err != nil {
		return err
	}
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), "retry", int64(len(again.ids)))
	defer bar.End()
	done, refused := 0, 0
	for _, id := range again.ids {
		// The server rejects a run with a newer attempt: it was retried since.
		q := belfry.Request{
			Method: http.MethodPost, Path: remote.RunPath(id) + ":retry",
			Query: url.Values{"attempt": {strconv.Itoa(again.attempt[id])}},
		}
		switch err := r.Call(ctx, q, nil); {
		case err == nil:
			done++
		case belfry.CodeOf(err) == "conflict", belfry.CodeOf(err) == "not_found":
			refused++
		default:
			bar.End()
			return fmt.Errorf("%s (%d of %d are done; to continue, repeat it with --ended-to %s,"+
				" which leaves those out): %w", id, done, len(again.ids), again.before(query), err)
		}
		bar.Set(int64(done+refused), int64(len(again.ids)))
	}
	bar.End()
	raw, err := json.Marshal(map[string]any{"kind": "retry", "count": len(again.ids), "done": done, "refused": refused})
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		r.Line("retry: %d of %d run again", done, len(again.ids))
		if refused > 0 {
			r.Line("%s", terminal.Faint.Render(fmt.Sprintf("%d cannot: their job is deleted,"+
				" they are live or have run again since, or they were triggered", refused)))
		}
		return nil
	})
}
