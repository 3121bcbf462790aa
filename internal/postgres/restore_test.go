package postgres_test

import (
	"encoding/json"
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
	r, err := b.store.Restore(b.t.Context())
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
	b.exec(`UPDATE cluster SET seen_at = now() - $1::interval`, back)
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

// eachMinute defines a job that runs all that it has missed.
func eachMinute() job.Definition {
	d := definition("each minute", everyMinute)
	d.Missed.Policy, d.Overlap = job.MissedAll, job.OverlapAllow
	return d
}

// A restored database holds what is due in the forgotten time. Later occurrences run, as on any day.
func TestARestoreHoldsTheForgottenTime(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(eachMinute())
	b.exec(`INSERT INTO namespace (id, name, created_at) VALUES ($1, 'ours', now())`, b.namespace)
	epoch := b.ownership().Epoch
	session := b.restored(j)

	r := b.restore()
	require.True(t, r.Held)
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
	b.exec(`UPDATE run SET needs_sweep = true`)
	swept, err := b.store.Sweep(t.Context(), job.SweepParams{
		Partitions: []int16{partition}, From: r.From, To: b.now().Add(time.Hour),
	})
	require.NoError(t, err)
	for _, run := range swept {
		require.False(t, run.DueAt.Before(r.Until), "nor does the sweep find it")
	}

	require.Len(t, r.Occurrences, 2)
	require.True(t, r.Occurrences[0].Planned)
	require.EqualValues(t, planned, r.Occurrences[0].Count)
	require.EqualValues(t, skipped, r.Occurrences[1].Count)
	require.EqualValues(t, skipped, r.Occurrences[1].Runs, "missed: all")
	mark, more, err := b.store.VerifyAudit(t.Context(), access.DefaultNamespace, access.AuditCheck{}, 100)
	require.NoError(t, err)
	require.False(t, more)
	require.Positive(t, mark.Seq)
	require.Equal(t, 1, b.count(`audit_log WHERE action = 'database.restore'`))
}

func TestAcceptARestore(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (b *jobs, j, trigger job.Job, session uuid.UUID) {
		b = setupJobs(t)
		j = b.create(eachMinute())
		trigger = b.create(definition("triggered", everyHour))
		_, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: trigger.ID}, nil)
		require.NoError(t, err)
		return b, j, trigger, b.restored(j)
	}
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		b, j, trigger, session := setup(t)
		r := b.restore()
		occurrences := len(b.fates(j)["restored"])
		out, err := b.store.AcceptRestore(t.Context(), false, time.Time{})
		require.NoError(t, err)
		require.Positive(t, out.Skipped)
		require.Zero(t, out.Runs)
		require.False(t, b.restore().Held)
		for _, e := range b.live(j) {
			require.False(t, e.Due.Before(r.Until))
		}
		require.InDelta(t, 20, len(b.fates(j)["restored"]), 2)
		require.Greater(t, len(b.fates(j)["restored"]), occurrences)
		require.Equal(t, job.ReasonRestored, b.ended(trigger)[0].Reason)
		require.Len(t, b.claim(session, b.pendingKeys(j)), 1)
		_, err = b.store.AcceptRestore(t.Context(), false, time.Time{})
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
		out, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
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

	t.Run("a run of a dead session", func(t *testing.T) {
		t.Parallel()
		b, j, _, _ := setup(t)
		b.exec(`UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = due_at WHERE ctid = (
			SELECT ctid FROM run WHERE job_id = $2 ORDER BY due_at LIMIT 1)`, uuid.New(), j.ID)
		_, err := b.store.AcceptRestore(t.Context(), false, time.Time{})
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
	_, err = b.store.AcceptRestore(t.Context(), true, time.Time{})
	require.NoError(t, err)
	b.catchUp(session)
	require.Len(t, b.claim(session, b.pendingKeys(one)), 1)
}

// A triggered run that an accepted restore skips can be retried with its own payload.
func TestASkippedTriggerKeepsItsPayload(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("triggered", everyHour)
	d.Payload = json.RawMessage(`"of the job"`)
	j := b.create(d)
	later := job.ChangeParams{Namespace: j.Namespace, ID: j.ID, At: b.now().Add(5 * time.Minute)}
	key, err := b.store.TriggerJob(t.Context(), later, json.RawMessage(`"of the trigger"`))
	require.NoError(t, err)
	session := b.restored(j)
	_, err = b.store.AcceptRestore(t.Context(), false, time.Time{})
	require.NoError(t, err)
	key.DueAt = key.DueAt.Add(-20 * time.Minute) // as restored moves it
	require.NoError(t, b.store.RetryRun(t.Context(), job.RunParams{Namespace: j.Namespace, Key: key}))
	claimed := b.claim(session, []job.Key{key})
	require.Len(t, claimed, 1)
	require.JSONEq(t, `"of the trigger"`, claimed[0].Payload)
	require.Equal(t, int16(251), claimed[0].Number, "a retry in the forgotten time may have had the next one")
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
	require.True(t, r.Held)
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

// TestHeldRunsDoNotStart: nothing starts what is held, and no worker finds it.
func TestHeldRunsDoNotStart(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(eachMinute())
	session := b.restored(j)
	keys := b.pendingKeys(j)
	require.GreaterOrEqual(t, len(keys), 6)
	b.exec(`UPDATE run SET handler = 'x' WHERE due_at = ANY ($1)`, []time.Time{keys[3].DueAt, keys[4].DueAt})
	b.exec(`UPDATE run SET admit = 2 WHERE due_at = $1`, keys[4].DueAt)
	w := job.WorkerSession{ID: uuid.New(), Namespace: b.namespace}
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT queue_id FROM job WHERE id = $1`, j.ID).Scan(&w.Queue))
	b.exec(`INSERT INTO session (id, name, started_at, expires_at, may_own, namespace_id, queue_id)
		VALUES ($1, 'w', now(), now() + interval '1 hour', false, $2, $3)`, w.ID, b.namespace, w.Queue)
	undecided := job.Due{Key: keys[4], Handler: "x"}
	for _, held := range []bool{true, false} {
		want := 1
		if held {
			want = 0
		} else {
			b.exec(`UPDATE cluster SET held_until = '-infinity'`)
		}
		require.Len(t, b.claim(session, keys[:1]), want)
		admitted, err := b.store.AdmitOne(t.Context(), session, keys[1], 0)
		require.NoError(t, err)
		require.Equal(t, held, admitted.Claimed == nil)
		if !held {
			require.Equal(t, int16(251), admitted.Claimed.Number, "above all that were handed out")
		}
		limited, _, err := admit(t.Context(), b.store, session, keys[2:3])
		require.NoError(t, err)
		require.Len(t, limited, want)
		_, first, err := b.store.ScanDue(t.Context(), pullFeeds(w.Queue), job.ScanParams{Ahead: time.Second, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, held, first[0].IsZero())
		pulled, err := b.store.PullClaim(t.Context(), job.PullClaimParams{
			Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
			Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 50}},
		})
		require.NoError(t, err)
		require.Len(t, pulled.Claimed, want)
		alone, err := b.store.PullAdmit(t.Context(), w.Namespace, w.Queue, w.ID, undecided)
		require.NoError(t, err)
		require.Equal(t, held, alone.Claimed == nil, "also if it was found before the restore was noticed")
	}
}

// TestHeldRunsDoNotDelayLaterOnes: a run of a job that runs one at a time does not wait for those that are held.
func TestHeldRunsDoNotDelayLaterOnes(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("each minute", everyMinute)
	d.Overlap = job.OverlapQueueAll
	j := b.create(d)
	session := b.restored(j)
	keys := b.pendingKeys(j)
	later := keys[len(keys)-1]
	require.False(t, later.DueAt.Before(b.restore().Until))
	b.exec(`UPDATE run SET run_at = now() WHERE due_at = $1`, later.DueAt)
	admitted, err := b.store.AdmitOne(t.Context(), session, later, 0)
	require.NoError(t, err)
	require.NotNil(t, admitted.Claimed)
}

// TestASecondRestoreForgetsNothing: what the first one holds is decided together with what the second one does.
func TestASecondRestoreForgetsNothing(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(eachMinute())
	b.exec(`INSERT INTO namespace (id, name, created_at) VALUES ($1, 'ours', now())`, b.namespace)
	session := b.restored(j)
	first := b.restore()
	want := map[time.Time]bool{}
	for _, at := range b.fates(j)["restored"] {
		want[at.UTC()] = true
	}
	for _, e := range b.live(j) {
		if e.Due.Before(first.Until) {
			want[e.Due.UTC()] = true
		}
	}
	r := b.again(session)
	require.True(t, r.Until.After(first.Until))
	require.Equal(t, first.From, r.From)
	var listed int64
	for _, o := range r.Occurrences {
		listed += o.Count
	}
	_, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
	require.NoError(t, err)
	b.catchUp(session)
	for _, a := range b.claim(session, b.pendingKeys(j)) {
		delete(want, a.Key.DueAt.UTC())
		if a.Key.DueAt.Before(r.Until) {
			listed--
		}
	}
	require.Empty(t, want, "all that the first restore held")
	require.Zero(t, listed, "the list has what runs")
}

// TestTheListOfTwoRestoresLeavesOutTheTimeBetween: nodes worked then.
func TestTheListOfTwoRestoresLeavesOutTheTimeBetween(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.exec(`INSERT INTO namespace (id, name, created_at) VALUES ($1, 'ours', now())`, b.namespace)
	session := b.restored(b.create(eachMinute()))
	b.exec(`UPDATE cursor_skip SET to_due = to_due - interval '6 min', count = count - 6`)
	b.exec(`UPDATE cluster SET restored_until = restored_until - interval '6 min', held_until = held_until - interval '6 min'`)
	list := b.again(session).Occurrences
	require.Len(t, list, 2)
	require.False(t, list[1].Planned)
	require.Equal(t, list[1].Count, list[1].Runs)
}

// again leaves the database as a second restore, of a backup that is two minutes old.
func (b *jobs) again(session uuid.UUID) job.Restore {
	b.t.Helper()
	b.failOver(2)
	b.trusted(2 * time.Minute)
	b.trustNow(session)
	b.take(session, b.ownership())
	b.catchUp(session)
	for more := true; more; {
		more = b.plan(time.Minute).More
	}
	return b.restore()
}

// TestASecondRestoreHoldsWhatHasNotStarted: it may have started in the time that the second one forgot. So what was
// accepted with run is decided again. Planned runs that waited for their missed policy no longer do.
func TestASecondRestoreHoldsWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]bool{"skip": false, "run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			d := definition("each minute", everyMinute)
			d.Missed.Policy, d.Overlap = job.MissedSkip, job.OverlapAllow
			j := b.create(d)
			session := b.restored(j)
			first := b.restore()
			planned := b.count(`run WHERE due_at < $1`, first.Until)
			require.InDelta(t, 10, planned, 1)
			_, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
			require.NoError(t, err)
			r := b.again(session)
			for _, a := range b.claim(session, b.pendingKeys(j)) {
				require.False(t, a.Key.DueAt.Before(r.Until), "held again")
			}
			early := b.count(`run WHERE due_at < $1`, r.From)
			require.Positive(t, early)
			_, err = b.store.AcceptRestore(t.Context(), run, time.Time{})
			require.NoError(t, err)
			b.catchUp(session)
			if !run {
				require.Zero(t, b.count(`run WHERE due_at < $1`, r.Until))
				return
			}
			claimed := 0
			for _, a := range b.claim(session, b.pendingKeys(j)) {
				if a.Key.DueAt.Before(r.From) {
					claimed++
				}
			}
			require.Equal(t, early, claimed, "they start, although the policy is skip")
		})
	}
}

// TestASecondRestoreRunsNothingThatWasSkipped: a decision that the second backup has stands.
func TestASecondRestoreRunsNothingThatWasSkipped(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(eachMinute())
	session := b.restored(j)
	_, err := b.store.AcceptRestore(t.Context(), false, time.Time{})
	require.NoError(t, err)
	b.exec(`UPDATE cursor_skip SET created_at = created_at - interval '5 min'`)
	skipped := b.fates(j)["restored"]
	require.NotEmpty(t, skipped)
	r := b.again(session)
	require.True(t, r.Held)
	_, err = b.store.AcceptRestore(t.Context(), true, r.Until)
	require.NoError(t, err)
	b.catchUp(session)
	require.Subset(t, b.fates(j)["restored"], skipped)
	for _, e := range b.live(j) {
		require.NotContains(t, skipped, e.Due)
	}
}

// TestCatchUpLeavesHeldRuns: an outage before the restore is accepted does not decide about what is held.
func TestCatchUpLeavesHeldRuns(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("each minute", everyMinute)
	d.Overlap = job.OverlapAllow
	session := b.restored(b.create(d))
	r := b.restore()
	b.exec(`UPDATE partition SET missed_from = $1, missed_until = now()`, r.From)
	held := `run WHERE origin = 0 AND due_at < $1`
	before := b.count(held, r.Until)
	require.Positive(t, before)
	b.catchUp(session)
	require.Equal(t, before, b.count(held, r.Until))
}

// TestAcceptIsOneCommandAtATime: a command that another one has overtaken changes nothing any more.
func TestAcceptIsOneCommandAtATime(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]bool{"skip": false, "run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			j := b.create(eachMinute())
			b.restored(j)
			before := b.live(j)
			tx := b.begin()
			_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtext('belfry restore'))`)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				_, err := b.store.AcceptRestore(t.Context(), run, time.Time{})
				done <- err
			}()
			b.awaitLocks(1, func() bool { return len(done) > 0 })
			_, err = tx.Exec(t.Context(), `UPDATE cluster SET held_until = '-infinity'`)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			require.ErrorContains(t, <-done, "by another command")
			require.Equal(t, before, b.live(j))
			require.Zero(t, b.count(`audit_log WHERE action = 'restore.accept'`))
		})
	}
}

// TestAcceptWaitsForCatchUp: running what is held does not hide an outage that is not decided yet.
func TestAcceptWaitsForCatchUp(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.restored(b.create(definition("each minute", everyMinute)))
	b.exec(`UPDATE partition SET missed_from = now() - interval '1 min', missed_until = now() WHERE id = 7`)
	_, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
	require.ErrorContains(t, err, "try again in some seconds")
	require.True(t, b.restore().Held)
}

// TestAcceptNoticesANewRestore: the command decided about the earlier one.
func TestAcceptNoticesANewRestore(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("each minute", everyMinute))
	b.restored(j)
	key := b.pendingKeys(j)[0]
	b.exec(`UPDATE run SET attempt = 1 WHERE due_at = $1`, key.DueAt)
	tx := b.begin()
	_, err := tx.Exec(t.Context(), `SELECT FROM run WHERE due_at = $1 FOR UPDATE`, key.DueAt)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
		done <- err
	}()
	b.awaitLocks(1, func() bool { return len(done) > 0 })
	b.exec(`UPDATE cluster SET held_until = now()`)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorContains(t, <-done, "another restore was noticed")
	require.True(t, b.restore().Held)
}

// TestRunWhatIsHeldInSteps: no statement starts more runs than it can before its timeout, an interrupted command is
// repeated, and each run starts once.
func TestRunWhatIsHeldInSteps(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(eachMinute())
	session := b.restored(j)
	r := b.restore()
	const retries = 25_000
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
		queue_id, needs_sweep) SELECT $1, 1, 1, id, $3::timestamptz - n * interval '1 ms', $3, 0, 1, 5, 1, 0, queue_id, false
		FROM job, generate_series(1, $4) n WHERE id = $2`, j.Partition, j.ID, r.From, retries)
	b.exec(`CREATE TABLE step (n bigint)`)
	b.exec(`CREATE FUNCTION bounded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO step SELECT count(*) FROM moved;
		IF (SELECT max(n) FROM step) > 10000 OR (SELECT sum(n) FROM step) = 20000 THEN
			RAISE EXCEPTION 'interrupted';
		END IF;
		RETURN NULL; END $$`)
	b.exec(`CREATE TRIGGER bounded AFTER UPDATE ON run REFERENCING NEW TABLE AS moved FOR EACH STATEMENT
		EXECUTE FUNCTION bounded()`)
	_, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
	require.ErrorContains(t, err, "interrupted")
	require.Equal(t, 1, b.count(`step WHERE n = 10000`), "the first step is done")
	require.True(t, b.restore().Held)
	loaded, err := b.store.Pending(t.Context(), []int16{partition}, b.now())
	require.NoError(t, err)
	require.Empty(t, loaded, "nothing starts yet")
	created := b.count(`run WHERE origin = 3 AND due_at < $1`, r.Until)
	require.Positive(t, created)

	b.exec(`DROP TRIGGER bounded ON run`)
	out, err := b.store.AcceptRestore(t.Context(), true, time.Time{})
	require.NoError(t, err)
	require.Equal(t, created, b.count(`run WHERE origin = 3 AND due_at < $1`, r.Until), "each once")
	require.GreaterOrEqual(t, out.Runs, int64(retries))
	require.LessOrEqual(t, out.Runs, int64(retries+created), "none is counted twice")
	b.catchUp(session)
	loaded, err = b.store.Pending(t.Context(), []int16{partition}, b.now())
	require.NoError(t, err)
	var started int
	for _, run := range loaded {
		if run.Seq == 1 {
			started++
			require.False(t, run.RunAt.Before(r.Until), "it is not late")
		}
	}
	require.Equal(t, retries, started, "the owner loads them all")
}
