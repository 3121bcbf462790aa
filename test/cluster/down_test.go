package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/oracle"
)

// grace is how late a run may be without counting as missed.
const grace = 10 * time.Second

// missed are the policies, with how many of the missed runs are caught up.
var missed = []struct {
	policy job.Missed
	most   int
}{
	{job.Missed{Policy: job.MissedSkip}, 0},
	{job.Missed{Policy: job.MissedOnce, CatchUpWindow: job.Duration(10 * time.Minute)}, 1},
	{
		job.Missed{
			Policy: job.MissedAll, CatchUpWindow: job.Duration(20 * time.Minute), Max: 50,
			Pace: job.Duration(50 * time.Millisecond),
		},
		50,
	},
	{
		job.Missed{
			Policy: job.MissedAll, CatchUpWindow: job.Duration(5 * time.Minute), Max: 1000,
			Pace: job.Duration(10 * time.Millisecond),
		},
		1000,
	},
	{
		job.Missed{
			Policy: job.MissedAll, CatchUpWindow: job.Duration(2 * time.Hour), Max: 10_000,
			Pace: job.Duration(time.Millisecond),
		},
		10_000,
	},
}

// periods divide the hour, so that there is also an occurrence an hour earlier.
var periods = []time.Duration{5 * time.Second, 10 * time.Second, time.Minute}

// caught is a run in the ledger.
type caught struct {
	due, runAt time.Time
	late       bool // missed and caught up
	moved      bool // claimed, and returned when its partition went to another node, which moves run_at
}

// skip is a range in the ledger.
type skip struct {
	from, to, made time.Time
	count          int
	reason         string
}

// TestDown: there is no node for an hour. Each occurrence of that hour is a run or part of a skip, according to its
// job's policy, and caught-up runs are paced.
//
// A test cannot wait for an hour or move the clock of PostgreSQL. Instead it moves the cursors, the jobs and the end of
// the last ownership back.
func TestDown(t *testing.T) {
	t.Parallel()
	jobs := number("JOBS", 30)
	c := newCluster(t, setup{env: steady})
	c.create(jobs, 12*time.Second, unhurried, func(i int, in *job.NewJob) {
		in.Definition.Schedule.Every = periods[i%len(periods)].String()
		in.Definition.Missed = missed[i/len(periods)%len(missed)].policy
	})
	for _, statement := range []string{
		`UPDATE cursor SET next_due_at = next_due_at - interval '1 hour'`,
		`UPDATE partition SET served_until = now() - interval '1 hour'`,
		// an hour ago there were runs left
		`UPDATE job SET plan_from = plan_from - interval '1 hour', state = 1, finished_at = NULL`,
		`UPDATE job_version SET created_at = created_at - interval '1 hour'`,
	} {
		tag, err := c.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
		require.Positive(t, tag.RowsAffected())
	}
	for range 3 {
		c.nodes = append(c.nodes, c.start())
	}
	c.finish(patience)

	received := map[string]time.Time{}
	for _, x := range c.sink.all() {
		require.NotContains(t, received, x.run, "delivered twice")
		received[x.run] = x.received
	}
	var occurrences, ran, skipped int
	for i, j := range c.jobs {
		period, m, from := periods[i%len(periods)], missed[i/len(periods)%len(missed)], c.planFrom(j.ID)
		d := downtime{
			what: fmt.Sprintf("%s of %v every %s", j.Name, j.Missed, period), period: period, runs: c.caught(j.ID),
			skips: c.skips(j.ID), served: c.served(j.Partition),
			must: oracle.Every(from.Truncate(time.Hour), period, from.Add(-1), c.end.Add(-1)),
		}
		d.judge(t, m.policy.WithDefaults(), m.most)
		for _, r := range d.runs {
			at, ok := received[job.FormatRunID(job.Key{Job: j.ID, DueAt: r.due})]
			require.True(t, ok, "%s: run of %s was never received", d.what, r.due)
			require.False(t, at.Before(r.runAt), "%s: run of %s came before its turn", d.what, r.due)
		}
		occurrences, ran = occurrences+len(d.must), ran+len(d.runs)
		skipped += len(d.must) - len(d.runs)
	}
	require.Len(t, received, ran, "received, but of no job")
	t.Logf("occurrences=%d ran=%d skipped=%d", occurrences, ran, skipped)
	a := c.audit()
	t.Logf("audit: %s", &a)
	require.Zero(t, a.Wrong()+a.Duplicates+a.Unreadable, "%+v", a.Findings[:min(len(a.Findings), 5)])
	require.LessOrEqual(t, int(a.Expected), occurrences, "history is kept from yesterday on")
}

// downtime is one job after the outage.
type downtime struct {
	what   string
	period time.Duration
	must   []time.Time
	runs   []caught // in order
	skips  []skip
	served time.Time // when a node began to serve the partition
}

// judge compares the ledger with the policy, computed independently.
func (d *downtime) judge(t *testing.T, policy job.Missed, most int) {
	t.Helper()
	// The instant of planning is that of the skips, or of the first caught-up run.
	var at time.Time
	for _, s := range d.skips {
		require.True(t, at.IsZero() || at.Equal(s.made), "%s: planned at two instants", d.what)
		at = s.made
		require.Equal(t, len(oracle.Every(s.from, d.period, s.from.Add(-1), s.to)), s.count, "%s: %v", d.what, s)
	}
	if at.IsZero() {
		late := slices.DeleteFunc(slices.Clone(d.runs), func(r caught) bool { return !r.late })
		require.NotEmpty(t, late, "%s: nothing was skipped and nothing caught up", d.what)
		if first := slices.IndexFunc(late, func(r caught) bool { return !r.moved }); first >= 0 {
			at = late[first].runAt.Add(-time.Duration(first) * time.Duration(policy.Pace))
		}
	}
	runs := make(map[int64]caught, len(d.runs))
	for _, r := range d.runs {
		require.NotContains(t, runs, r.due.Unix(), "%s: a run twice", d.what)
		runs[r.due.Unix()] = r
	}
	missed := func(due time.Time) bool { return due.Before(d.served.Add(-grace)) }
	oldest := d.served.Add(-time.Duration(policy.CatchUpWindow))
	inWindow := 0 // missed, and not too old
	for _, due := range d.must {
		if missed(due) && !due.Before(oldest) {
			inWindow++
		}
	}
	left, late := inWindow-min(inWindow, most), 0 // those in the window that do not run are the oldest
	for _, due := range d.must {
		want := ""
		switch {
		case !missed(due):
		case policy.Policy == job.MissedSkip:
			want = "missed"
		case due.Before(oldest):
			want = "missed_window"
		case left > 0:
			left--
			want = map[job.MissedPolicy]string{job.MissedOnce: "missed", job.MissedAll: "missed_max"}[policy.Policy]
		}
		require.Equal(t, want, d.skipped(t, due), "%s: occurrence of %s", d.what, due)
		r, ran := runs[due.Unix()]
		require.Equal(t, want == "", ran, "%s: run of %s", d.what, due)
		delete(runs, due.Unix())
		if ran && missed(due) {
			require.True(t, r.late)
			turn := at.Add(time.Duration(late) * time.Duration(policy.Pace))
			require.True(t, turn.Equal(r.runAt) || r.moved && turn.Before(r.runAt),
				"%s: pace of %s: want %s, got %s", d.what, due, turn, r.runAt)
			late++
		}
	}
	require.Empty(t, runs, "%s: runs that must not be", d.what)
}

// skipped is why an occurrence was skipped, empty if it was not.
func (d *downtime) skipped(t *testing.T, due time.Time) (reason string) {
	t.Helper()
	for _, s := range d.skips {
		if !due.Before(s.from) && !due.After(s.to) {
			require.Empty(t, reason, "%s: %s was skipped twice", d.what, due)
			reason = s.reason
		}
	}
	return reason
}

// served is when a node began to serve a partition.
func (c *cluster) served(partition int16) (at time.Time) {
	c.t.Helper()
	const query = `SELECT missed_until FROM partition WHERE id = $1`
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), query, partition).Scan(&at))
	return at.Add(grace)
}

func (c *cluster) planFrom(id uuid.UUID) (at time.Time) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT plan_from FROM job WHERE id = $1`, id).Scan(&at))
	return at
}

func (c *cluster) caught(id uuid.UUID) []caught {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(),
		`SELECT due_at, run_at, origin = 3, attempt > 1 FROM run_history WHERE job_id = $1 AND ended = 1 ORDER BY 1`, id)
	require.NoError(c.t, err)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x caught, err error) {
		return x, row.Scan(&x.due, &x.runAt, &x.late, &x.moved)
	})
	require.NoError(c.t, err)
	return out
}

func (c *cluster) skips(id uuid.UUID) []skip {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), `
SELECT s.from_due, s.to_due, s.created_at, s.count, s.reason
    FROM cursor_skip s JOIN job j ON j.partition = s.partition AND j.cursor_id = s.cursor_id
WHERE j.id = $1 ORDER BY 1`, id)
	require.NoError(c.t, err)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x skip, err error) {
		return x, row.Scan(&x.from, &x.to, &x.made, &x.count, &x.reason)
	})
	require.NoError(c.t, err)
	return out
}
