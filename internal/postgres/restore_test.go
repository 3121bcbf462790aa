package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// trustNow lets a node vouch for the clock.
func (b *jobs) trustNow(session uuid.UUID) {
	b.t.Helper()
	s, err := b.store.Renew(b.t.Context(), session, time.Hour, true)
	require.NoError(b.t, err)
	require.NoError(b.t, b.store.TrustClock(b.t.Context(), s))
	require.WithinDuration(b.t, s.Now, b.mark(), 30*time.Second)
}

func (b *jobs) restore() job.Restore {
	b.t.Helper()
	r, err := b.store.Restore(b.t.Context(), time.Time{})
	require.NoError(b.t, err)
	return r
}

// restored plans ten minutes of jobs that are due each minute, and leaves the database as a restore of a backup that is
// 20 minutes old: half of the time since was planned. It returns the node that noticed it, which owns the partition.
func (b *jobs) restored(jobs ...job.Job) (session uuid.UUID) {
	b.t.Helper()
	before := b.session()
	b.trustNow(before)
	b.take(before, b.ownership())
	b.plan(10 * time.Minute)
	const back = 20 * time.Minute
	b.exec(`UPDATE run SET due_at = due_at - $1::interval, run_at = run_at - $1::interval`, back)
	for _, j := range jobs {
		b.back(j, back+5*time.Minute)
	}
	b.exec(`UPDATE cursor SET next_due_at = next_due_at - $1::interval`, back)
	b.expire(before)
	b.renewed(before, back)
	b.exec(`UPDATE cluster SET seen_at = now() - $1::interval, up_since = now() - $1::interval`, back)
	b.trusted(back)
	b.failOver(1)
	after := b.session()
	b.trustNow(after)
	require.Equal(b.t, []job.Ownership{{Partition: partition, Owner: after, Epoch: b.ownership().Epoch + 1}},
		b.take(after, b.ownership()))
	require.Zero(b.t, b.catchUp(after).Outage, "the forgotten time was served")
	for more := true; more; {
		more = b.plan(time.Minute).More
	}
	return after
}

// pendingKeys returns the keys of the live runs of a job.
func (b *jobs) pendingKeys(j job.Job) (out []job.Key) {
	b.t.Helper()
	for _, e := range b.live(j) {
		out = append(out, job.Key{Partition: j.Partition, Job: j.ID, DueAt: e.Due, Seq: e.Seq})
	}
	return out
}

func (b *jobs) claim(session uuid.UUID, keys []job.Key) []job.Attempt {
	b.t.Helper()
	claimed, err := b.store.Claim(b.t.Context(), session, keys, farAhead)
	require.NoError(b.t, err)
	return claimed
}

// A restored database holds what is due in the forgotten time. Later occurrences run, as on any day.
func TestARestoreHoldsTheForgottenTime(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("each minute", everyMinute)
	d.Missed.Policy, d.Overlap = job.MissedAll, job.OverlapAllow
	j := b.create(d)
	b.exec(`INSERT INTO namespace (id, name, created_at) VALUES ($1, 'ours', now())`, b.namespace)
	epoch := b.ownership().Epoch
	session := b.restored(j)

	r := b.restore()
	require.True(t, r.Held())
	require.Greater(t, r.Until.Sub(r.From), 19*time.Minute)
	require.Greater(t, b.ownership().Epoch, epoch+1_000_000_000, "above all that were handed out")
	var planned, later, skipped int
	for _, e := range b.live(j) {
		if e.Due.Before(r.Until) {
			planned++
		} else {
			later++
		}
	}
	for _, at := range b.fates(j)["restored"] {
		require.True(t, at.Before(r.Until))
		skipped++
	}
	require.InDelta(t, 10, planned, 1)
	require.InDelta(t, 10, skipped, 2)
	require.Equal(t, 1, later, "it plans from the restore on")
	require.Empty(t, b.fates(j)["missed"])

	claimed := b.claim(session, b.pendingKeys(j))
	require.Len(t, claimed, 1, "what is due in the forgotten time is held")
	require.False(t, claimed[0].Key.DueAt.Before(r.Until))
	require.Equal(t, int16(1), claimed[0].Number)
	loaded, err := b.store.Pending(t.Context(), []int16{partition}, b.now())
	require.NoError(t, err)
	require.Empty(t, loaded, "nor does an owner load it")

	require.Len(t, r.Occurrences, 2)
	require.True(t, r.Occurrences[0].Planned)
	require.EqualValues(t, planned, r.Occurrences[0].Count)
	require.EqualValues(t, skipped, r.Occurrences[1].Count)
	require.EqualValues(t, skipped, r.Occurrences[1].Runs, "missed: all")
	mark, more, err := b.store.VerifyAudit(t.Context(), access.DefaultNamespace, access.AuditMark{}, 100)
	require.NoError(t, err)
	require.False(t, more)
	require.Positive(t, mark.Seq)
	require.Equal(t, 1, b.count(`audit_log WHERE action = 'database.restore'`))
}

func TestAcceptARestore(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (b *jobs, j, trigger job.Job, session uuid.UUID) {
		b = setupJobs(t)
		d := definition("each minute", everyMinute)
		d.Missed.Policy, d.Overlap = job.MissedAll, job.OverlapAllow
		j = b.create(d)
		trigger = b.create(definition("triggered", everyHour))
		_, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: trigger.ID}, nil)
		require.NoError(t, err)
		return b, j, trigger, b.restored(j)
	}
	accept := func(b *jobs, from, to time.Time, run bool) (job.AcceptResult, error) {
		return b.store.AcceptRestore(b.t.Context(), job.AcceptParams{From: from, To: to, Run: run})
	}

	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		b, j, trigger, session := setup(t)
		r := b.restore()
		occurrences := len(b.fates(j)["restored"])
		out, err := accept(b, r.From, r.Until, false)
		require.NoError(t, err)
		require.Positive(t, out.Skipped)
		require.Zero(t, out.Runs)
		require.False(t, b.restore().Held())
		for _, e := range b.live(j) {
			require.False(t, e.Due.Before(r.Until))
		}
		require.InDelta(t, 20, len(b.fates(j)["restored"]), 2)
		require.Greater(t, len(b.fates(j)["restored"]), occurrences)
		require.Equal(t, job.ReasonRestored, b.ended(trigger)[0].Reason)
		require.Len(t, b.claim(session, b.pendingKeys(j)), 1)
		_, err = accept(b, r.From, r.Until, false)
		require.ErrorContains(t, err, "no restore of the database is waiting")
		require.Equal(t, 1, b.count(`audit_log WHERE action = 'restore.accept'`))
	})

	t.Run("run", func(t *testing.T) {
		t.Parallel()
		b, j, trigger, session := setup(t)
		r := b.restore()
		due := map[time.Time]bool{}
		for _, at := range b.fates(j)["restored"] {
			due[at.UTC()] = true
		}
		for _, e := range b.live(j) {
			due[e.Due.UTC()] = true
		}
		out, err := accept(b, r.From, r.Until, true)
		require.NoError(t, err)
		require.Positive(t, out.Runs)
		require.Positive(t, b.catchUp(session).Runs)
		claimed := b.claim(session, append(b.pendingKeys(j), b.pendingKeys(trigger)...))
		for _, a := range claimed {
			want := int16(251)
			if !a.Key.DueAt.Before(r.Until) {
				want = 1
			}
			require.Equal(t, want, a.Number, "above all that were handed out")
			if a.Key.Job == j.ID {
				require.True(t, due[a.Key.DueAt.UTC()], "each once")
				delete(due, a.Key.DueAt.UTC())
			}
		}
		require.Empty(t, due, "all of them")
		require.Equal(t, 1, b.count(`run WHERE attempt = 251 AND job_id = $1 AND seq > 0`, trigger.ID))
		var tries int
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT max(attempt - coalesce(free_attempts, 0)) FROM run`).
			Scan(&tries))
		require.Equal(t, 1, tries, "none counts against max_attempts")
	})

	t.Run("skip a part, and run the rest", func(t *testing.T) {
		t.Parallel()
		b, j, _, session := setup(t)
		r := b.restore()
		middle := r.Until.Add(-5 * time.Minute)
		_, err := accept(b, middle, r.Until, true)
		require.ErrorContains(t, err, "would stay held")
		_, err = accept(b, r.From, r.Until.Add(time.Minute), true)
		require.ErrorContains(t, err, "--to must be")
		_, err = accept(b, r.From, middle, false)
		require.NoError(t, err)
		require.True(t, b.restore().Held())
		for _, a := range b.claim(session, b.pendingKeys(j)) {
			require.False(t, a.Key.DueAt.Before(r.Until), "the rest is held")
		}
		_, err = accept(b, middle, r.Until, true)
		require.NoError(t, err)
		b.catchUp(session)
		claimed := b.claim(session, b.pendingKeys(j))
		require.InDelta(t, 5, len(claimed), 1)
		for _, a := range claimed {
			require.False(t, a.Key.DueAt.Before(middle))
		}
	})

	t.Run("a run of a dead session", func(t *testing.T) {
		t.Parallel()
		b, j, _, _ := setup(t)
		r := b.restore()
		b.exec(`UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = due_at WHERE ctid = (
			SELECT ctid FROM run WHERE job_id = $2 ORDER BY due_at LIMIT 1)`, uuid.New(), j.ID)
		_, err := accept(b, r.From, r.Until, false)
		require.ErrorContains(t, err, "1 runs are leased to sessions of before the restore")
	})
}

// A one-off that was due in the forgotten time has finished its job, and can still run.
func TestAcceptARestoreOfAOneOff(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("each minute", everyMinute))
	once := definition("once", everyMinute)
	once.Schedule.Every, once.Schedule.At = "", b.now().Add(15*time.Minute).Format(time.RFC3339)
	one := b.create(once)
	past := b.now().Add(-5 * time.Minute).Truncate(time.Second)
	b.exec(`UPDATE cursor SET schedule = jsonb_set(schedule::jsonb, '{at}', to_jsonb($2::text)),
		next_due_at = $3::timestamptz + interval '20 min' WHERE id = (SELECT cursor_id FROM job WHERE id = $1)`,
		one.ID, past.Format(time.RFC3339), past)
	session := b.restored(j, one)
	require.Equal(t, job.Finished, b.get(one).State)
	require.Empty(t, b.live(one))
	b.exec(`UPDATE job SET finished_at = now() - interval '1 day 1 min', keep_finished_for = '1 day' WHERE id = $1`, one.ID)
	removed, err := b.store.RemoveJobs(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, removed, "it may still run")
	r := b.restore()
	_, err = b.store.AcceptRestore(t.Context(), job.AcceptParams{From: r.From, To: r.Until, Run: true})
	require.NoError(t, err)
	b.catchUp(session)
	require.Len(t, b.claim(session, b.pendingKeys(one)), 1)
}

// Neither an outage nor a failover is a restore.
func TestWhatIsNoRestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails bool
		mark  time.Duration
	}{
		"an outage": {false, time.Hour}, "a failover": {true, 20 * time.Second}, "a quick failover": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			session := b.session()
			b.trustNow(session)
			if c.fails {
				b.failOver(1)
			}
			b.trusted(c.mark)
			b.exec(`UPDATE cluster SET seen_at = now() - interval '1 h'`)
			s, err := b.store.Renew(t.Context(), session, time.Hour, true)
			require.NoError(t, err)
			if c.mark > clock.MaxStep {
				require.NoError(t, b.store.TrustClock(t.Context(), s))
			}
			require.Zero(t, b.restore())
			var known bool
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT trusted_timeline = belfry_timeline() FROM cluster`).
				Scan(&known))
			require.True(t, known)
			b.trusted(time.Hour)
			b.trustNow(session)
			require.Zero(t, b.restore(), "the server is known since")
		})
	}
}

// An operator who confirms the clock of a restored database does not lift the hold.
func TestConfirmingTheClockNoticesARestore(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.trustNow(b.session())
	b.failOver(1)
	b.trusted(30 * 24 * time.Hour)
	_, err := b.store.ConfirmClock(t.Context())
	require.NoError(t, err)
	r := b.restore()
	require.True(t, r.Held())
	b.failOver(3)
	b.trusted(time.Hour)
	_, err = b.store.ConfirmClock(t.Context())
	require.NoError(t, err)
	require.True(t, b.restore().Until.After(r.Until), "a second restore")
	require.Equal(t, r.From.Truncate(time.Millisecond), b.restore().From.Truncate(time.Millisecond), "nothing was accepted")
	var base int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT attempt_base FROM cluster`).Scan(&base))
	require.Equal(t, 4*250, base, "of timeline 5")
}
