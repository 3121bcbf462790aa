package cluster_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/oracle"
)

// outageCase is how jobs of the drill differ.
type outageCase struct {
	name    string
	missed  job.Missed
	max     int           // how many missed occurrences run
	window  time.Duration // older ones do not
	period  time.Duration
	overlap job.Overlap
}

// outageCases are the jobs of the drill: every policy, with and without overlap, in two periods.
func outageCases() (out []outageCase) {
	for _, period := range []time.Duration{10 * time.Second, 20 * time.Second} {
		for _, overlap := range []job.Overlap{job.OverlapSkip, job.OverlapAllow, job.OverlapQueue} {
			for _, c := range []outageCase{
				{name: "skip", missed: job.Missed{Policy: job.MissedSkip}, window: 30 * time.Minute},
				{name: "once", missed: job.Missed{Policy: job.MissedOnce}, max: 1, window: 30 * time.Minute},
				{name: "all", missed: job.Missed{Policy: job.MissedAll}, max: 100, window: 30 * time.Minute},
				{name: "all max 2", missed: job.Missed{Policy: job.MissedAll, Max: 2}, max: 2, window: 30 * time.Minute},
				{
					name: "all in 45s", max: 100, window: 45 * time.Second,
					missed: job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(45 * time.Second)},
				},
			} {
				c.period, c.overlap = period, overlap
				out = append(out, c)
			}
		}
	}
	return out
}

// outageLengths are the lengths of the outages: 20s in the short form.
func outageLengths(t *testing.T) (out []time.Duration) {
	t.Helper()
	text := os.Getenv("OUTAGES")
	if text == "" {
		text = "20s"
	}
	for _, s := range strings.Split(text, ",") {
		d, err := time.ParseDuration(s)
		require.NoError(t, err)
		out = append(out, d)
	}
	return out
}

// TestMissed: the only node is stopped or killed, and another one starts after a while. What came due meanwhile follows
// the missed policy of its job, whether or not it had been planned before.
func TestMissed(t *testing.T) {
	t.Parallel()
	for _, length := range outageLengths(t) {
		for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
			t.Run(name+" for "+length.String(), func(t *testing.T) {
				t.Parallel()
				drillOutage(t, length, signal)
			})
		}
	}
}

// copies is how many jobs of each case there are, in different partitions.
const copies = 3

func drillOutage(t *testing.T, length time.Duration, signal syscall.Signal) {
	c := newCluster(t, setup{nodes: 1, slow: immediately})
	cases := outageCases()
	c.create(copies*len(cases), 24*time.Hour, func(i int, in *job.NewJob) {
		x := cases[i/copies]
		in.Definition.Schedule.Every, in.Definition.Overlap = x.period.String(), x.overlap
		in.Definition.Missed = x.missed
	})
	c.balanced()
	// Away from due times: a session is renewed once per second, and how long a node takes to start is not known.
	now := c.now()
	<-time.After(now.Truncate(10 * time.Second).Add(13500 * time.Millisecond).Sub(now))
	down := c.now()
	_ = c.nodes[0].end(signal)
	<-time.After(length - c.now().Sub(down))
	up := c.now() // the node takes its partitions after this, and before owned
	c.nodes[0] = c.start()
	c.balanced()
	owned := c.now()
	c.caughtUp(owned)
	d := unserved{down: down, up: up, owned: owned}
	for i, x := range cases {
		for _, j := range c.jobs[i*copies : (i+1)*copies] {
			want, got := d.compare(t, x, c.occurrences(j.ID, d))
			assert.Equal(t, want, got, "%s, every %s, overlap %s", x.name, x.period, x.overlap)
			if j.ID == c.jobs[i*copies].ID {
				t.Logf("%-10s every %-4s overlap %-6s expected %s\n%48s %s", x.name, x.period, x.overlap, want,
					"actual", got)
			}
		}
	}
}

// unserved is when there was no node, by the clock of the database.
type unserved struct{ down, up, owned time.Time }

// occurrence is what happened to an occurrence.
type occurrence struct {
	due, runAt time.Time
	what       string // ran, caught up, or the reason of a skip
}

// compare returns what is expected, computed independently, and what the ledger has.
func (o *unserved) compare(t *testing.T, x outageCase, ledger []occurrence) (want, got string) {
	t.Helper()
	var list []string
	var last time.Time
	for _, r := range ledger {
		list = append(list, fmt.Sprintf("%s %s", r.due.UTC().Format("04:05"), r.what))
		if r.what != "caught up" {
			continue
		}
		if !last.IsZero() {
			assert.GreaterOrEqual(t, r.runAt.Sub(last), time.Second, "pace of %s every %s: %s", x.name, x.period, r.due)
		}
		last = r.runAt
	}
	got = strings.Join(list, ", ")
	// A due time may lie between the start of the node and its first work by the length of the grace. Then both
	// answers are right.
	due := oracle.Every(o.down.Truncate(time.Minute), x.period, o.down, o.owned)
	for _, returned := range append([]time.Time{o.up, o.owned}, due...) {
		served := returned.Add(grace)
		if returned.Equal(o.up) || returned.Equal(o.owned) {
			served = returned
		}
		if served.Before(o.up) || served.After(o.owned) {
			continue
		}
		if want = x.expected(due, served); want == got {
			return want, got
		}
	}
	return x.expected(due, o.up), got
}

// expected is what the policy says about due times, if a node serves again from an instant on.
func (x *outageCase) expected(due []time.Time, served time.Time) string {
	var list []string
	var inWindow int
	for _, d := range due {
		if d.Before(served.Add(-grace)) && !d.Before(served.Add(-x.window)) {
			inWindow++
		}
	}
	for _, d := range due {
		what := "caught up"
		switch {
		case !d.Before(served.Add(-grace)):
			what = "ran"
		case x.missed.Policy == job.MissedSkip:
			what = "missed"
		case d.Before(served.Add(-x.window)):
			what = "missed_window"
		case inWindow > x.max:
			inWindow--
			what = map[job.MissedPolicy]string{job.MissedOnce: "missed", job.MissedAll: "missed_max"}[x.missed.Policy]
		}
		list = append(list, fmt.Sprintf("%s %s", d.UTC().Format("04:05"), what))
	}
	return strings.Join(list, ", ")
}

// occurrences lists what the ledger has of a job from the beginning of an outage to its end.
func (c *cluster) occurrences(id uuid.UUID, o unserved) (out []occurrence) {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), `
SELECT due_at, run_at, CASE WHEN ended = 1 AND origin = 3 THEN 'caught up' WHEN ended = 1 THEN 'ran' ELSE reason END
FROM run_history WHERE job_id = $1 AND due_at > $2 AND due_at <= $3`, id, o.down, o.owned)
	require.NoError(c.t, err)
	out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (x occurrence, err error) {
		return x, row.Scan(&x.due, &x.runAt, &x.what)
	})
	require.NoError(c.t, err)
	period := time.Duration(0)
	for _, j := range c.jobs {
		if j.ID == id {
			period, err = time.ParseDuration(j.Schedule.Every)
			require.NoError(c.t, err)
		}
	}
	for _, s := range c.skips(id) {
		for _, due := range oracle.Every(s.from, period, s.from.Add(-1), s.to) {
			if due.After(o.down) {
				out = append(out, occurrence{due: due, what: s.reason})
			}
		}
	}
	slices.SortFunc(out, func(a, b occurrence) int { return a.due.Compare(b.due) })
	return out
}

// caughtUp waits until nothing is left that was due by an instant.
func (c *cluster) caughtUp(by time.Time) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	var left int
	require.NoError(c.t, until(ctx, func() bool {
		err := c.pool.QueryRow(ctx, `
SELECT (SELECT count(*) FROM run WHERE due_at <= $1) + (SELECT count(*) FROM cursor WHERE next_due_at <= $1)`,
			by).Scan(&left)
		return err == nil && left == 0
	}), "%d runs and cursors are left", left)
}
