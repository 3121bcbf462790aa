package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// trusted moves the mark of the clock, which is the same as moving the clock the other way.
func (b *jobs) trusted(ago time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE cluster SET trusted_at = now() - $1::interval`, ago)
}

func (b *jobs) mark() time.Time {
	b.t.Helper()
	s, err := b.store.Clock(b.t.Context())
	require.NoError(b.t, err)
	return s.Mark
}

// clockStep is a step that cannot be undone. It returns what it did.
type clockStep struct {
	name string
	do   func() (n int, err error)
}

// clockSteps prepares work for each step of the path.
func (b *jobs) clockSteps() []clockStep {
	ctx := b.t.Context()
	session := b.session()
	keys := b.dueRun()
	b.take(session, b.ownership())
	lost, dead := b.create(definition("lost", everyHour)), b.session()
	b.plan(2 * time.Hour)
	b.exec(`UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = now() WHERE job_id = $2`, dead, lost.ID)
	b.create(definition("to plan", everyMinute))
	ended := b.create(definition("ended", everyHour))
	b.exec(`UPDATE job SET end_at = now() - interval '1 min' WHERE id = $1`, ended.ID)
	once := b.create(definition("once", everyHour))
	b.exec(`UPDATE job SET state = 3, finished_at = now() - interval '1 day 1 min', keep_finished_for = '1 day'
		WHERE id = $1`, once.ID)
	b.exec(`DELETE FROM run WHERE job_id = $1`, once.ID)
	b.exec(`INSERT INTO audit_finding SELECT 0, gen_random_uuid(), now(), 'missing', $1, now() - interval '2 days'`,
		b.namespace)
	b.exec(`INSERT INTO idempotent_response (namespace_id, key, part, request_hash, created_at)
		VALUES (gen_random_uuid(), 'k', 0, '', now() - interval '2 days')`)
	b.exec(`CREATE TABLE run_history_20010101 PARTITION OF run_history FOR VALUES FROM ('2001-01-01') TO ('2001-01-02')`)
	day := 24 * time.Hour
	return []clockStep{
		{"plan", func() (int, error) {
			p, err := b.store.Plan(ctx, job.PlanParams{Partitions: []int16{partition}, LookAhead: time.Hour, Cursors: 100})
			return len(p.Runs), err
		}},
		{"claim", func() (int, error) {
			got, err := b.store.Claim(ctx, session, keys, farAhead)
			return len(got), err
		}},
		{"rescue", func() (int, error) {
			b.expire(dead)
			_, n, err := b.store.Rescue(ctx, []int16{partition}, 10)
			return n, err
		}},
		{"finish jobs", func() (int, error) { return b.store.FinishJobs(ctx, 10) }},
		{"remove jobs", func() (int, error) { return b.store.RemoveJobs(ctx, 10) }},
		{"drop findings", func() (int, error) {
			before := b.number(`SELECT count(*) FROM audit_finding`)
			_, err := b.store.DropSkips(ctx, day, 10)
			return int(before - b.number(`SELECT count(*) FROM audit_finding`)), err
		}},
		{"drop skips", func() (int, error) {
			b.exec(`INSERT INTO cursor_skip SELECT 0, 1, now(), now(), 1, 'missed', now() - interval '2 days', gen_random_uuid()`)
			return b.store.DropSkips(ctx, day, 10)
		}},
		{"drop operations", func() (int, error) {
			b.exec(`INSERT INTO operation (id, namespace_id, kind, filter, failed_until, rate, state, count, actor, created_at,
				ended_at, next_at) VALUES (gen_random_uuid(), gen_random_uuid(), 'pause', '{}', now(), 1, 'finished', 1, 'ann',
				now(), now() - interval '2 days', now())`)
			return b.store.DropOperations(ctx, day, 10)
		}},
		{"drop responses", func() (int, error) { return b.store.DropIdempotentResponses(ctx, 10) }},
		{"drop history", func() (int, error) {
			days, err := b.store.DropHistory(ctx, 365*day)
			return len(days), err
		}},
	}
}

// Statements that cannot be undone refuse on their own: a node may be suspended between its check of the clock and its
// statement, or may have started just now.
func TestStatementsRefuseWhileTheClockIsInDoubt(t *testing.T) {
	t.Parallel()
	for name, ago := range map[string]time.Duration{
		"a year ahead": 365 * 24 * time.Hour, "half a minute ahead": 31 * time.Second, "an hour back": -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			steps := b.clockSteps()
			for _, s := range steps {
				b.trusted(ago)
				n, err := s.do()
				require.NoError(t, err, s.name)
				require.Zero(t, n, s.name)
			}
			for _, s := range steps {
				b.trusted(0)
				n, err := s.do()
				require.NoError(t, err, s.name)
				require.Positive(t, n, "%s, when the clock is right", s.name)
			}
		})
	}
}

func TestChangesFailWhileTheClockIsInDoubt(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	session := b.session()
	keys := b.dueRun()
	b.take(session, b.ownership())
	claimed, err := b.store.Claim(t.Context(), session, keys, farAhead)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	j, ctx := b.create(definition("a job", everyHour)), t.Context()
	change := job.ChangeParams{Namespace: b.namespace, ID: j.ID}
	b.trusted(-time.Hour) // the clock went back by an hour
	for name, do := range map[string]func() error{
		"create": func() error {
			_, err := b.store.CreateJob(ctx, job.CreateParams{
				Namespace: b.namespace, ID: idIn(partition), Definition: definition("another", everyHour),
			})
			return err
		},
		"pause":   func() error { _, err := b.store.PauseJob(ctx, change, ""); return err },
		"trigger": func() error { _, err := b.store.TriggerJob(ctx, change, nil); return err },
		"retry a failed attempt": func() error {
			_, _, err := b.store.CompleteDecided(ctx, []job.Completion{{
				Key: keys[0], Attempt: 1, Session: session, Outcome: job.Outcome{Kind: job.Failed, Retryable: true},
			}})
			return err
		},
		"report": func() error {
			return b.store.ReportRun(ctx, access.Report{Key: keys[0], Attempt: 1, Until: b.now().Add(time.Hour)},
				job.Outcome{Kind: job.Succeeded})
		},
	} {
		require.True(t, store.ClockInDoubt(do()), name)
	}
	_, err = b.store.Renew(ctx, session, time.Hour, true)
	require.NoError(t, err, "renewals go on")
	_, err = b.store.Job(ctx, b.namespace, j.ID)
	require.NoError(t, err, "and so do reads")
	fenced, err := b.store.CompleteSucceeded(ctx, []job.Completion{{Key: keys[0], Attempt: 1, Session: session}})
	require.NoError(t, err)
	require.Zero(t, fenced)
	var ended time.Time
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT ended_at FROM run_history WHERE job_id = $1`, keys[0].Job).
		Scan(&ended))
	require.False(t, ended.Before(b.mark()), "a success is written, at the time that was trusted last or later")
}

// Workers wait, and keep their sessions: by a clock that is a year ahead, all of them have expired.
func TestWorkersWaitWhileTheClockIsInDoubt(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("for workers", everySecond)
	d.Target = job.Target{Kind: "worker", Config: []byte(`{"handler":"x"}`)}
	j := b.create(d)
	b.plan(time.Minute)
	b.exec(`UPDATE run SET run_at = now() - interval '1 s'`)
	var queue int32
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT queue_id FROM job WHERE id = $1`, j.ID).Scan(&queue))
	session := uuid.New()
	b.exec(`INSERT INTO session (id, name, started_at, renewed_at, expires_at, may_own, namespace_id, queue_id)
		VALUES ($1, 'w', now(), now() - interval '1 year', now() - interval '1 year' + interval '15 s', false, $2, $3)`,
		session, b.namespace, queue)
	claim := func() job.PullClaimResult {
		got, err := b.store.PullClaim(t.Context(), job.PullClaimParams{
			Namespace: b.namespace, Queue: queue, Limit: 10, Feeds: pullFeeds(queue),
			Polls: []job.Poll{{Session: session, Handlers: []string{"x"}, Max: 1}},
		})
		require.NoError(t, err)
		return got
	}
	b.trusted(365 * 24 * time.Hour)
	got := claim()
	require.True(t, got.Paused)
	require.Empty(t, got.Claimed)
	require.Empty(t, got.Expired)
	b.trusted(0)
	require.Equal(t, []uuid.UUID{session}, claim().Expired)
	b.exec(`UPDATE session SET renewed_at = now(), expires_at = now() + interval '1 h' WHERE id = $1`, session)
	require.Len(t, claim().Claimed, 1)
}

func TestTheMarkOfTheClock(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	ctx, session := t.Context(), b.session()
	require.Zero(t, b.mark(), "no node has trusted the clock yet")
	renew := func() clock.Sample {
		b.exec(`UPDATE cluster SET seen_at = now() - interval '1 h'`)
		s, err := b.store.Renew(ctx, session, time.Hour, true)
		require.NoError(t, err)
		return s
	}
	s := renew()
	require.Zero(t, b.mark(), "a renewal alone does not trust it")
	require.NoError(t, b.store.TrustClock(ctx, s))
	mark := b.mark()
	require.False(t, mark.Before(s.Now))
	require.NoError(t, b.store.TrustClock(ctx, s), "another node with the same sample")
	require.Equal(t, mark, b.mark())
	// On a slow machine the mark may be too old for the renewal, so the test tries more than once.
	for s = renew(); !b.mark().After(mark); s = renew() {
		require.Greater(t, s.Now.Sub(mark), 10*time.Second, "renewals move it")
		require.NoError(t, b.store.TrustClock(ctx, s))
		mark = b.mark()
	}
	require.True(t, b.mark().Before(s.Now))
	require.Equal(t, mark, s.Mark)

	for _, ago := range []time.Duration{time.Hour, 11 * time.Second, -20 * time.Second, -time.Hour} {
		b.trusted(ago)
		mark, s := b.mark(), renew()
		require.Equal(t, mark, b.mark(), "too far")
		wrong := clock.Sample{Now: s.Now.Add(time.Minute), Mark: s.Mark}
		require.NoError(t, b.store.TrustClock(ctx, wrong))
		require.Equal(t, mark, b.mark(), "the clock has changed since it was judged")
		require.NoError(t, b.store.TrustClock(ctx, s))
		require.False(t, b.mark().Before(s.Now))
	}
}

// A session that was renewed by a clock that was ahead, and whose process has died since, does not live until then.
func TestSessionsAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	ahead, fine := b.session(), b.session()
	b.exec(`UPDATE session SET renewed_at = now() + interval '1 year', expires_at = now() + interval '1 year 5 s'
		WHERE id = $1`, ahead)
	expires := func(id uuid.UUID) (at time.Time) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT expires_at FROM session WHERE id = $1`, id).Scan(&at))
		return at
	}
	before := expires(fine)
	b.trusted(time.Minute)
	rescue := func() {
		_, _, err := b.store.Rescue(t.Context(), []int16{partition}, 10)
		require.NoError(t, err)
	}
	rescue()
	require.True(t, expires(ahead).After(b.now().Add(24*time.Hour)), "the clock is in doubt")
	b.trusted(0)
	rescue()
	require.False(t, expires(ahead).After(b.now().Add(5*time.Second)))
	require.Equal(t, before, expires(fine))
}

// A time in which the clock was in doubt is a time in which no node served: what came due then was missed. The wrong
// clock itself measures no such time.
func TestADoubtIsAGapOfService(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	ctx, session := t.Context(), b.session()
	b.take(session, b.ownership())
	gap := func() (from, until *time.Time) {
		require.NoError(t, b.pool.QueryRow(ctx, `SELECT missed_from, missed_until FROM partition WHERE id = $1`,
			partition).Scan(&from, &until))
		return from, until
	}
	renew := func() clock.Sample {
		s, err := b.store.Renew(ctx, session, time.Hour, true)
		require.NoError(t, err)
		return s
	}
	b.exec(`UPDATE session SET renewed_at = now() - interval '1 year'`)
	b.trusted(365 * 24 * time.Hour)
	renew()
	from, until := gap()
	require.Nil(t, from, "a year ahead")
	require.Nil(t, until)

	b.trusted(5 * time.Minute) // the clock is right again
	s := renew()
	require.NoError(t, b.store.TrustClock(ctx, s))
	from, until = gap()
	require.NotNil(t, from)
	require.WithinDuration(t, s.Mark, *from, time.Millisecond)
	require.WithinDuration(t, b.mark().Add(-job.MissedGrace), *until, time.Millisecond)
	require.Equal(t, 1, b.count(`partition WHERE missed_from IS NOT NULL`), "the others never had an owner")
}

// A clock that goes back by an hour for a few seconds measures no time without service either: what only waited in that
// hour, for a limit or a paused queue, was not missed.
func TestAShortStepBackIsNoGapOfAnHour(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(b *jobs, node uuid.UUID, owned []job.Ownership){
		"renewal": func(b *jobs, node uuid.UUID, _ []job.Ownership) {
			_, err := b.store.Renew(b.t.Context(), node, time.Hour, true)
			require.NoError(b.t, err)
		},
		"release": func(b *jobs, node uuid.UUID, owned []job.Ownership) {
			require.NoError(b.t, b.store.Release(b.t.Context(), node, owned))
		},
		"registration": func(b *jobs, node uuid.UUID, owned []job.Ownership) {
			b.expire(node)
			b.take(b.session(), owned...)
		},
	} {
		b := setupJobs(t)
		node := b.session()
		owned := b.take(node, b.ownership())
		b.trusted(-time.Hour)
		work(b, node, owned)
		const corrected = 11 * time.Second // after the step
		b.exec(`UPDATE cluster SET trusted_at = trusted_at - $1::interval`, time.Hour+corrected)
		b.exec(`UPDATE session SET renewed_at = renewed_at - $1::interval, expires_at = now()`, time.Hour+corrected)
		b.exec(`UPDATE partition SET served_until = served_until - $1::interval`, time.Hour+corrected)
		mark := b.mark()
		b.take(b.session(), b.ownership())
		from, until := b.gap()
		require.Equal(t, mark, from, name)
		require.GreaterOrEqual(t, until.Sub(from), corrected-job.MissedGrace, name)
	}
}

func TestConfirmClock(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.trusted(365 * 24 * time.Hour)
	old := b.mark()
	s, err := b.store.ConfirmClock(t.Context())
	require.NoError(t, err)
	require.Equal(t, old, s.Mark)
	require.Equal(t, s.Now, b.mark())
	var detail string
	require.NoError(t, b.pool.QueryRow(t.Context(), `
		SELECT detail FROM audit_log WHERE namespace_id = $1 AND action = 'clock.confirm'`,
		access.DefaultNamespace).Scan(&detail))
	require.Contains(t, detail, old.Format("2006-01-02"))
}
