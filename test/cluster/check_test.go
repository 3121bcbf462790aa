package cluster_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/oracle"
)

// report is the result of the checker. All figures except occurrences, kills and, with faults, duplicates must be 0.
type report struct {
	occurrences int // that are expected
	kills       int // of nodes
	lost        int // not in the ledger exactly once, or in the ledger as succeeded and never received
	early       int // received before their run time
	phantom     int // in the ledger or received, and not expected
	stuck       int // leased to a dead session
	duplicates  int // receipts of a run beyond its first
	repeated    int // of them, those of an attempt that had been received before
	skipped     int
	failed      int
}

// String is the last line of a long form.
func (r report) String() string {
	return fmt.Sprintf("occurrences=%d kills=%d lost=%d early=%d phantom=%d stuck=%d duplicates=%d", r.occurrences,
		r.kills, r.lost, r.early, r.phantom, r.stuck, r.duplicates)
}

// entry is a row of the ledger.
type entry struct {
	ended   job.Ended
	claimed time.Time // of its last attempt; zero if there was none
	endedAt time.Time // when the transaction began that wrote it
}

// must lists the expected runs.
func (c *cluster) must() (runs []string) {
	for _, j := range c.jobs {
		for _, due := range oracle.Every(j.CreatedAt.Truncate(time.Second), time.Second, j.CreatedAt,
			c.end.Add(-time.Nanosecond)) {
			runs = append(runs, job.FormatRunID(job.Key{Job: j.ID, DueAt: due}))
		}
	}
	return runs
}

// ledger reads the ended runs.
func (c *cluster) ledger() map[string][]entry {
	c.t.Helper()
	out := map[string][]entry{}
	rows, err := c.pool.Query(c.t.Context(), `SELECT job_id, due_at, seq, ended, started_at, ended_at FROM run_history`)
	require.NoError(c.t, err)
	defer rows.Close()
	for rows.Next() {
		var k job.Key
		var e entry
		var claimed *time.Time
		require.NoError(c.t, rows.Scan(&k.Job, &k.DueAt, &k.Seq, &e.ended, &claimed, &e.endedAt))
		if claimed != nil {
			e.claimed = *claimed
		}
		id := job.FormatRunID(k)
		out[id] = append(out[id], e)
	}
	require.NoError(c.t, rows.Err())
	return out
}

// check compares the expected runs, the ledger and the receipts of the sink.
func (c *cluster) check() report {
	c.t.Helper()
	receipts := c.sink.all()
	r := judge(c.must(), c.ledger(), receipts)
	r.kills = c.kills
	first := map[[2]string]receipt{}
	for _, x := range receipts {
		if before, ok := first[[2]string{x.run, x.attempt}]; ok {
			c.t.Logf("%s attempt %s was received at %s and again %s later", x.run, x.attempt,
				before.received.UTC().Format(time.RFC3339Nano), x.received.Sub(before.received))
		} else {
			first[[2]string{x.run, x.attempt}] = x
		}
	}
	r.stuck = c.stuck()
	return r
}

// stuck counts the runs that are leased to a dead session.
func (c *cluster) stuck() (n int) {
	c.t.Helper()
	const stuck = `
SELECT count(*) FROM run
WHERE state = 1
  AND NOT EXISTS (SELECT FROM session WHERE id = run.session_id AND expires_at > now() - $1::interval)`
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), stuck, ttl).Scan(&n))
	return n
}

// judge compares the sets.
func judge(must []string, ledger map[string][]entry, receipts []receipt) report {
	r := report{occurrences: len(must)}
	received, attempts := map[string]int{}, map[[2]string]bool{}
	for _, x := range receipts {
		received[x.run]++
		if a := [2]string{x.run, x.attempt}; attempts[a] {
			r.repeated++
		} else {
			attempts[a] = true
		}
		if x.received.Before(x.due) {
			r.early++
		}
	}
	known := make(map[string]bool, len(must))
	for _, run := range must {
		known[run] = true
		entries, n := ledger[run], received[run]
		r.duplicates += max(0, n-1)
		switch {
		case len(entries) != 1, entries[0].ended == job.EndedSucceeded && n == 0:
			r.lost++
		case entries[0].ended == job.EndedSkipped:
			r.skipped++
		case entries[0].ended != job.EndedSucceeded:
			r.failed++
		}
	}
	for run := range ledger {
		if !known[run] {
			r.phantom++
			delete(received, run)
		}
	}
	for run := range received {
		if !known[run] {
			r.phantom++
		}
	}
	return r
}

// clean requires that nothing is wrong, except duplicates by different attempts.
func (c *cluster) clean(r report) {
	c.t.Helper()
	require.Equal(c.t, r.occurrences, int(c.sound(r).Expected))
}

// sound is clean for jobs that go on: the audit expects more than was checked before.
func (c *cluster) sound(r report) auditor.Report {
	c.t.Helper()
	require.Positive(c.t, r.occurrences)
	require.Equal(c.t, report{occurrences: r.occurrences, kills: r.kills, duplicates: r.duplicates}, r)
	a := c.audit()
	c.t.Logf("audit: %s", &a)
	require.Zero(c.t, a.Wrong()+a.Duplicates+a.Unreadable+a.WithoutOracle, "%+v", a.Findings[:min(len(a.Findings), 5)])
	return a
}

// audit audits the ledger as `belfry audit ledger --with oracle` does.
func (c *cluster) audit() (out auditor.Report) {
	c.t.Helper()
	a, err := c.store.AuditLedger(c.t.Context(), auditor.Params{Oracle: true})
	require.NoError(c.t, err)
	for more := true; more; {
		var r auditor.Report
		r, _, more, err = a.Page(c.t.Context())
		require.NoError(c.t, err)
		out.Add(r)
	}
	return out
}

// firing is how long after an instant the sink received the first run that was claimed after it. A run that was claimed
// before can be delivered without the database. On a slow machine a fault may come after the last run: that one shows
// nothing, but there must be an earlier one.
func (c *cluster) firing(after ...time.Time) figures {
	c.t.Helper()
	ledger, receipts := c.ledger(), c.sink.all()
	var out figures
	for _, at := range after {
		first := time.Duration(-1)
		for _, x := range receipts {
			since := x.received.Sub(at)
			if e := ledger[x.run]; len(e) == 1 && e[0].claimed.After(at) && since > 0 && (first < 0 || since < first) {
				first = since
			}
		}
		if first > 0 {
			out = append(out, first)
		} else {
			require.False(c.t, at.Before(c.end.Add(-time.Second)), "no run was claimed after %s", at)
		}
	}
	require.NotEmpty(c.t, out, "no fault came before the last run")
	return out
}

// lateness is how long after its due time the sink first received each run.
func (c *cluster) lateness() figures {
	first := map[string]time.Duration{}
	for _, x := range c.sink.all() {
		late := x.received.Sub(x.due)
		if before, ok := first[x.run]; !ok || late < before {
			first[x.run] = late
		}
	}
	out := make(figures, 0, len(first))
	for _, late := range first {
		out = append(out, late)
	}
	return out
}

// figures are durations to print.
type figures []time.Duration

func (f figures) percentile(p int) time.Duration {
	if len(f) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f))
	return sorted[(len(sorted)*p+99)/100-1]
}

func (f figures) String() string {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("n=%d p50=%s p99=%s max=%s", len(f), ms(f.percentile(50)), ms(f.percentile(99)),
		ms(f.percentile(100)))
}
