package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", b.soon(20*time.Second)))
	other := b.create(definition("b", everySecond))
	b.plan(40 * time.Second)
	due := b.live(j)
	at := func(i int) time.Time { return due[i].Due.Add(-time.Minute) }
	b.exec(`
		UPDATE run SET due_at = due_at - interval '1 min', attempt = CASE WHEN due_at = $3 THEN 1 ELSE 0 END,
		               state = CASE WHEN due_at = $4 THEN 1 /* running */ ELSE 0 /* pending */ END
		WHERE job_id = $1 AND due_at <= $2`, j.ID, due[2].Due, due[1].Due, due[2].Due)
	trigger, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, nil)
	require.NoError(t, err)
	c := b.remove(j)
	require.True(t, c.Changed)
	require.Equal(t, []time.Time{at(2)}, dueTimes(b.live(j)), "what is being delivered ends by itself")
	require.Equal(t, []entry{
		{Due: at(0), Count: 1, RunAt: due[0].Due, Ended: job.EndedSkipped, Reason: job.ReasonDeleted},
		{Due: at(1), Count: 1, RunAt: due[1].Due, Ended: job.EndedCancelled, Reason: job.ReasonDeleted},
		{
			Due:    trigger.DueAt,
			Count:  1,
			Seq:    1,
			RunAt:  trigger.DueAt,
			Origin: job.FromTrigger,
			Ended:  job.EndedSkipped,
			Reason: job.ReasonDeleted,
		},
	}, b.ended(j))
	_, err = b.store.Job(t.Context(), b.namespace, j.ID)
	require.ErrorIs(t, err, job.ErrNotFound)
	for _, err := range []error{
		func() error {
			_, err := b.store.DeleteJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID})
			return err
		}(),
		func() error {
			_, err := b.store.ResumeJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID})
			return err
		}(),
		func() error {
			_, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, nil)
			return err
		}(),
	} {
		require.ErrorIs(t, err, job.ErrNotFound)
	}
	var versions int
	require.NoError(
		t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job_version WHERE job_id = $1`, j.ID).Scan(&versions),
	)
	require.Equal(t, 1, versions)
	b.plan(60 * time.Second)
	require.Len(t, b.live(j), 1)
	require.Greater(t, len(b.live(other)), len(due))
	b.create(definition("a", everySecond)) // its name is free again
}

func TestDeleteAccountsForWhatNobodyPlanned(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	behind := b.create(definition("behind", everySecond))
	b.back(behind, time.Minute)
	b.cursorBack(behind, time.Minute)
	c := b.remove(behind)
	gone := grid(time.Second, behind.CreatedAt.Add(-time.Minute), c.Now)
	require.Equal(t, []entry{{
		Due: gone[0], To: gone[len(gone)-1], Count: int64(len(gone)), RunAt: gone[0], Ended: job.EndedSkipped,
		Reason: job.ReasonDeleted,
	}}, b.ledger(behind))

	paused := b.create(definition("paused", everySecond))
	b.pause(paused)
	b.back(paused, time.Minute)
	c = b.remove(paused)
	gone = grid(time.Second, paused.CreatedAt.Add(-time.Minute), c.Now)
	require.Equal(t, []entry{{
		Due: gone[0], To: gone[len(gone)-1], Count: int64(len(gone)), RunAt: gone[0], Ended: job.EndedSkipped,
		Reason: job.ReasonPaused,
	}}, b.ledger(paused))
}

func TestAJobThatCannotBeReadCanBeReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	one, two := b.create(definition("one", everyHour)), b.create(definition("two", everyHour))
	b.exec(`UPDATE job SET schedule = '{"cron":"61 * * * *"}'`)
	b.update(one, definition("one", everyMinute))
	b.remove(two)
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everyHour)
	d.Priority = 3
	j := b.create(d)
	b.pause(j)
	key, err := b.store.TriggerJob(
		t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, json.RawMessage(`{"x":1}`),
	)
	require.NoError(t, err)
	require.Equal(t, job.Key{Partition: partition, Job: j.ID, DueAt: key.DueAt, Seq: 1}, key)
	require.Equal(
		t, []entry{{Due: key.DueAt, Count: 1, Seq: 1, RunAt: key.DueAt, Origin: job.FromTrigger}}, b.ledger(j),
	)
	var payload string
	var needsSweep bool
	var priority int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT payload, needs_sweep, priority FROM run
		WHERE job_id = $1`, j.ID).Scan(&payload, &needsSweep, &priority))
	require.JSONEq(t, `{"x":1}`, payload)
	require.True(t, needsSweep)
	require.Equal(t, 3, priority)
	second, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, nil)
	require.NoError(t, err)
	require.True(t, second.DueAt.After(key.DueAt))
	for _, bad := range []json.RawMessage{json.RawMessage(`{`), make(json.RawMessage, job.MaxPayload+1)} {
		_, err = b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, bad)
		require.Len(t, problem.All(err), 1)
	}
	_, err = b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: uuid.New(), ID: j.ID}, nil)
	require.ErrorIs(t, err, job.ErrNotFound)
}
