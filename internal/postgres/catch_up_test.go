package postgres_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// gap returns the time in which no node served the test's partition; zero: there is none.
func (b *jobs) gap() (from, until time.Time) {
	b.t.Helper()
	var f, u *time.Time
	const read = `SELECT missed_from, missed_until FROM partition WHERE id = $1`
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), read, partition).Scan(&f, &u))
	if f != nil {
		from = f.UTC()
	}
	if u != nil {
		until = u.UTC()
	}
	return from, until
}

// renewed moves the last renewal of a session into the past. It lasts for an hour.
func (b *jobs) renewed(session uuid.UUID, ago time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE session SET renewed_at = now() - $2::interval WHERE id = $1`, session, ago)
}

// renewedAt returns when a session was renewed last.
func (b *jobs) renewedAt(session uuid.UUID) (at time.Time) {
	b.t.Helper()
	row := b.pool.QueryRow(b.t.Context(), `SELECT renewed_at FROM session WHERE id = $1`, session)
	require.NoError(b.t, row.Scan(&at))
	return at.UTC()
}

func (b *jobs) catchUp(session uuid.UUID) job.CatchUpResult {
	b.t.Helper()
	r, err := b.store.CatchUp(b.t.Context(), job.CatchUpParams{
		Session: session, Partitions: []int16{partition}, LookAhead: time.Minute,
	})
	require.NoError(b.t, err)
	return r
}

func TestTakeNotesSinceWhenNoNodeServed(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	first, second, third := b.session(), b.session(), b.session()
	owned := b.take(first, b.ownership())
	from, until := b.gap()
	require.True(t, from.IsZero() && until.IsZero(), "the first owner has missed nothing")

	// On a slow machine the grace may pass before the take, so the test tries more than once.
	for {
		b.expire(first)
		b.renewed(first, job.MissedGrace/2)
		served := b.renewedAt(first)
		owned = b.take(second, owned...)
		from, until = b.gap()
		if from.IsZero() && until.IsZero() {
			break
		}
		require.Greater(t, b.now().Sub(served), job.MissedGrace, "within the grace")
		b.exec(`UPDATE partition SET missed_from = NULL, missed_until = NULL WHERE id = $1`, partition)
		first, second = second, b.session()
	}

	b.expire(second)
	b.renewed(second, time.Minute)
	served, before := b.renewedAt(second), b.now()
	owned = b.take(third, owned...)
	from, until = b.gap()
	require.Equal(t, served, from, "since the last renewal")
	require.WithinRange(t, until, before.Add(-job.MissedGrace), b.now().Add(-job.MissedGrace))

	require.NoError(t, b.store.Release(t.Context(), third, owned))
	b.exec(`UPDATE partition SET served_until = served_until - interval '30 s'`)
	fourth := b.session()
	b.take(fourth, b.ownership())
	since, to := b.gap()
	require.Equal(t, from, since, "what was missed before is not decided yet")
	require.True(t, to.After(until))
	b.catchUp(fourth)
	from, until = b.gap()
	require.True(t, from.IsZero())
	require.Equal(t, to, until, "plan needs it")

	b.renewed(fourth, time.Minute)
	_, err := b.store.Renew(t.Context(), fourth, time.Hour, true)
	require.NoError(t, err)
	from, until = b.gap()
	require.True(t, until.After(to) && from.Before(until), "a session that comes back has not served meanwhile")
}

func TestTheSessionOfAnOwnerStays(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	owner, other := b.session(), b.session()
	b.take(owner, b.ownership())
	b.exec(`UPDATE session SET renewed_at = now() - interval '2 h', expires_at = '-infinity'`)
	b.session()
	var left []uuid.UUID
	require.NoError(t, b.pool.QueryRow(t.Context(),
		`SELECT array_agg(id) FROM session WHERE id = ANY ($1)`, []uuid.UUID{owner, other}).Scan(&left))
	require.Equal(t, []uuid.UUID{owner}, left)
}

// unserved plans ten minutes, and leaves the database as after an outage of 20 minutes and something: of the minutes in
// which no node served the partition, about half were planned before. It returns the node that serves it again.
func (b *jobs) unserved(jobs ...job.Job) (session uuid.UUID) {
	b.t.Helper()
	return b.unservedAfter(10*time.Minute, jobs...)
}

// unservedAfter is unserved after the given time was planned.
func (b *jobs) unservedAfter(planned time.Duration, jobs ...job.Job) (session uuid.UUID) {
	b.t.Helper()
	before := b.session()
	owned := b.take(before, b.ownership())
	b.plan(planned)
	const back = 20 * time.Minute
	b.exec(`UPDATE run SET due_at = due_at - $1::interval, run_at = run_at - $1::interval`, back)
	for _, j := range jobs {
		b.back(j, back+5*time.Minute)
	}
	b.exec(`UPDATE cursor SET next_due_at = next_due_at - $1::interval`, back)
	b.exec(`UPDATE job SET end_at = end_at - $1::interval`, back)
	b.expire(before)
	b.renewed(before, back+time.Minute)
	after := b.session()
	b.take(after, owned...)
	return after
}

// fates is what happened to the occurrences of a job that were missed.
func (b *jobs) fates(j job.Job) (out map[string][]time.Time) {
	b.t.Helper()
	_, until := b.gap()
	out = map[string][]time.Time{}
	for _, e := range b.ledger(j) {
		what := string(e.Reason)
		switch {
		case e.Ended == 0 && e.Origin == job.FromMissed:
			what = "runs"
		case e.Ended == 0 && e.Due.Before(until):
			what = "late"
		case e.Ended == 0:
			continue
		}
		for due := e.Due; !due.After(later(e.Due, e.To)); due = due.Add(time.Minute) {
			out[what] = append(out[what], due)
		}
	}
	rows, err := b.pool.Query(b.t.Context(), `
SELECT from_due, to_due, reason FROM cursor_skip s JOIN job j ON j.cursor_id = s.cursor_id WHERE j.id = $1`, j.ID)
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var from, to time.Time
		var reason string
		require.NoError(b.t, rows.Scan(&from, &to, &reason))
		for due := from.UTC(); !due.After(to); due = due.Add(time.Minute) {
			out[reason] = append(out[reason], due)
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestPlannedRunsAreMissedLikeOthers: what was planned before the outage follows the same policy as what was not.
func TestPlannedRunsAreMissedLikeOthers(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	with := func(name string, m job.Missed) job.Job {
		d := definition(name, everyMinute)
		d.Missed = m
		return b.create(d)
	}
	skip, once := with("skip", job.Missed{Policy: "skip"}), with("once", job.Missed{Policy: "once"})
	all, most := with("all", job.Missed{Policy: "all"}), with("max", job.Missed{Policy: "all", Max: 14})
	window := with("window", job.Missed{Policy: "all", CatchUpWindow: job.Duration(15 * time.Minute)})
	node := b.unserved(skip, once, all, most, window)

	claimable := func() int {
		runs, err := b.store.Pending(t.Context(), []int16{partition}, b.now())
		require.NoError(t, err)
		require.NotEmpty(t, runs)
		n := 0
		for _, r := range runs {
			got, err := b.store.Claim(t.Context(), node, []job.Key{r.Key}, 0)
			require.NoError(t, err)
			n += len(got)
			admitted, err := b.store.AdmitOne(t.Context(), node, r.Key, 0)
			require.NoError(t, err)
			require.Nil(t, admitted.Claimed)
		}
		return n
	}
	require.Zero(t, claimable(), "nothing starts before it is decided")
	_, next, unserved, err := b.store.NextDue(t.Context(), []int16{partition})
	require.NoError(t, err)
	require.Empty(t, next, "nothing is planned before either")
	require.Equal(t, []int16{partition}, unserved)
	require.Equal(t, job.CatchUpResult{}, b.catchUp(b.session()), "only the owner decides")
	done := b.catchUp(node)
	require.Positive(t, done.Runs)
	require.Positive(t, done.Skipped)
	require.Empty(t, done.Left)
	_, next, unserved, err = b.store.NextDue(t.Context(), []int16{partition})
	require.NoError(t, err)
	require.NotEmpty(t, next)
	require.Empty(t, unserved)
	for more := true; more; {
		more = b.plan(time.Minute).More
	}
	_, until := b.gap()
	first := b.ledger(skip)[0].Due
	missed := grid(time.Minute, first.Add(-time.Minute), until.Add(-1))
	n := len(missed)
	require.Greater(t, n, 17)

	require.Equal(t, map[string][]time.Time{"missed": missed}, b.fates(skip))
	require.Equal(t, map[string][]time.Time{"missed": missed[:n-1], "runs": missed[n-1:]}, b.fates(once))
	require.Equal(t, map[string][]time.Time{"runs": missed}, b.fates(all))
	require.Equal(t, map[string][]time.Time{"missed_max": missed[:n-14], "runs": missed[n-14:]}, b.fates(most))
	old := until.Add(job.MissedGrace - 15*time.Minute)
	fates := b.fates(window)
	require.Equal(t, missed, append(fates["missed_window"], fates["runs"]...))
	for _, due := range fates["missed_window"] {
		require.True(t, due.Before(old))
	}
	require.False(t, fates["runs"][0].Before(old))
	for _, j := range []job.Job{all, most, window} {
		var last time.Time
		for _, e := range b.live(j) {
			if e.Origin == job.FromMissed {
				require.True(t, last.IsZero() || e.RunAt.Sub(last) >= time.Second, "pace")
				last = e.RunAt
			}
		}
	}
	require.Zero(t, b.catchUp(node), "once")
	b.exec(`UPDATE run SET run_at = now() - interval '1 s'`)
	require.Positive(t, claimable())
}

// catchUpStep is the step that a new owner begins with after an outage.
func (b *bulk) catchUpStep() *hot {
	in := job.CatchUpParams{Session: b.session}
	for p := range int16(job.Partitions) {
		in.Partitions = append(in.Partitions, p)
	}
	return &hot{name: "CatchUp", before: func() {
		b.exec(`UPDATE partition SET missed_from = now() - interval '2 h', missed_until = now()`)
		b.exec(`UPDATE run SET origin = 0, due_at = due_at - interval '3600.007 s' WHERE state = 0 AND attempt = 0 AND seq = 0`)
	}, step: func() {
		r, err := b.store.CatchUp(b.t.Context(), in)
		require.NoError(b.t, err)
		require.NotZero(b.t, r.Skipped)
	}, ways: []string{
		"cluster", "cursor by partition id", "job by partition id", "partition", "run by address",
		"run by partition due_at seq", "run by partition job_id due_at seq",
	}}
}

// TestNothingIsCaughtUpByAWrongClock: by a clock that is a year ahead, a node that starts finds that all was missed.
func TestNothingIsCaughtUpByAWrongClock(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("skip", everyMinute))
	node := b.unserved(j)
	b.exec(`UPDATE partition SET missed_until = now() + interval '1 year' WHERE id = $1`, partition)
	b.trusted(365 * 24 * time.Hour)
	require.Equal(t, []int16{partition}, b.catchUp(node).Left)
	require.Empty(t, b.ended(j))
	b.trusted(0)
	require.Positive(t, b.catchUp(node).Skipped)
	_, until := b.gap()
	require.True(t, until.Before(b.now()), "what is still to come is not missed")
}

// TestAJobThatEndedInAnOutageFollowsItsPolicy: it gets what the other jobs of its schedule get before its end, whether
// or not that was planned before the outage. What the policy does not run is skipped, and the job is finished.
func TestAJobThatEndedInAnOutageFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []job.MissedPolicy{job.MissedSkip, job.MissedOnce, job.MissedAll} {
		for _, after := range []time.Duration{5 * time.Minute, 12 * time.Minute, 0} { // of the first minute; 0: of the last
			b := setupJobs(t)
			d := definition("ends", everyMinute)
			d.Missed.Policy = policy
			ends := b.create(d)
			d.Name = "goes on"
			goesOn := b.create(d)
			node := b.unserved(ends, goesOn)
			_, until := b.gap()
			first, end := later(b.ledger(ends)[0].Due, b.ledger(goesOn)[0].Due), until.UTC() // a minute may begin between them
			if after > 0 {
				end = first.Add(after)
			}
			b.exec(`DELETE FROM run WHERE job_id = $1 AND due_at >= $2`, ends.ID, end)
			b.exec(
				`UPDATE job SET end_at = $2, schedule = $3 WHERE id = $1`, ends.ID, end,
				fmt.Sprintf(`{"every":"1m","end_at":%q}`, end.Format(time.RFC3339Nano)),
			)
			b.catchUp(node)
			for more := true; more; {
				more = b.plan(time.Minute).More
			}
			got, want := b.fatesIn(ends, first, end), b.fatesIn(goesOn, first, end)
			require.Equal(t, want, got, "%s, %s", policy, after)
			missed := slices.SortedFunc(maps.Keys(got), time.Time.Compare)
			require.Equal(t, grid(time.Minute, first.Add(-time.Minute), end.Add(-1)), missed, "each is accounted for")
			for _, e := range b.live(ends) {
				require.True(t, e.Due.Before(end))
			}
			newest := got[missed[len(missed)-1]]
			switch {
			case policy == job.MissedAll, policy == job.MissedOnce && after == 0:
				require.Equal(t, "runs", newest)
			default:
				require.Equal(t, "missed", newest)
			}
			_, err := b.store.FinishJobs(t.Context(), 100)
			require.NoError(t, err)
			require.Equal(t, job.Finished, b.get(ends).State)
			require.Equal(t, job.Active, b.get(goesOn).State)
		}
	}
}

// fatesIn is what happened to each missed occurrence of a job from a time on, and before another one.
func (b *jobs) fatesIn(j job.Job, from, end time.Time) map[time.Time]string {
	b.t.Helper()
	out := map[time.Time]string{}
	for what, times := range b.fates(j) {
		for _, due := range times {
			if !due.Before(from) && due.Before(end) {
				out[due] = what
			}
		}
	}
	return out
}

// TestWorkersDoNotStartMissedRuns: workers find runs by themselves, so they could be faster than the owner.
func TestWorkersDoNotStartMissedRuns(t *testing.T) {
	t.Parallel()
	for _, admit := range []int{0, 1, 2} {
		b := setupBulk(t, nil)
		b.shared(20)
		b.pending(1)
		w := b.pulling()
		b.exec(`UPDATE run SET due_at = due_at - interval '20 min', admit = $1`, admit)
		claim := func() int {
			got, err := b.store.PullClaim(t.Context(), job.PullClaimParams{
				Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
				Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 50}},
			})
			require.NoError(t, err)
			n := len(got.Claimed)
			for _, d := range got.Undecided {
				out, err := b.store.PullAdmit(t.Context(), w.Namespace, w.Queue, w.ID, d)
				require.NoError(t, err)
				if out.Claimed != nil {
					n++
				}
			}
			return n
		}
		b.exec(pgtest.ExpireSession, b.session)
		require.Zero(t, claim(), "no node serves the partitions")
		b.exec(`UPDATE session SET expires_at = now() + interval '1 h' WHERE id = $1`, b.session)
		b.exec(`UPDATE partition SET missed_from = now() - interval '1 h', missed_until = now() - interval '10 s'`)
		require.Zero(t, claim(), "a node does, and has not decided them")
		b.exec(`UPDATE partition SET missed_from = NULL`)
		require.Equal(t, 20, claim(), "the rest is late")
	}
}

// TestLateRunsOfAJobWaitForEachOther: after a takeover several runs of a job are late. None of them overlapped by the
// schedule, so none is skipped. What comes due while one of them runs does.
func TestLateRunsOfAJobWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, overlap := range []job.Overlap{job.OverlapSkip, job.OverlapQueue} {
		b := setupFence(t, everyMinute)
		_, err := b.pool.Exec(t.Context(), `UPDATE job SET policy = $1, admit = 2`, `{"overlap":"`+string(overlap)+`"}`)
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), `DELETE FROM run`)
		require.NoError(t, err)
		insert := func(ago time.Duration) job.Key {
			k := b.key
			require.NoError(t, b.pool.QueryRow(t.Context(), `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 needs_sweep)
SELECT $1, 0, 1, $2, t, t, 0, 0, 0, 0, 2, 1, false
FROM (SELECT clock_timestamp() - $3::interval AS t) x RETURNING due_at`, k.Partition, k.Job, ago).Scan(&k.DueAt))
			return k
		}
		admit := func(k job.Key) job.Admitted {
			a, err := b.store.AdmitOne(t.Context(), b.session, k, 0)
			require.NoError(t, err)
			return a
		}
		first, second, third := insert(4*time.Second), insert(3*time.Second), insert(2*time.Second)
		require.NotNil(t, admit(first).Claimed)
		require.Equal(t, job.Admitted{}, admit(second), "it waits")
		require.Equal(t, job.Admitted{}, admit(third), "it waits")
		meanwhile := insert(0)
		require.True(t, admit(meanwhile).Done, "the first was running when it came due")
	}
}
