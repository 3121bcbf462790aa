package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// awaitLocks waits until n transactions wait for a lock, or done returns true.
func (b *jobs) awaitLocks(n int, done func() bool) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return b.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= n || done()
	}, time.Minute, 5*time.Millisecond)
}

func never() bool { return false }

// editedRun is a run of a worker's job that was claimed, and its job's next definition, which a node delivers in
// another queue.
func (b *limits) editedRun() (job.Attempt, job.Job, job.Definition) {
	d := definition("edited", past)
	d.Queue, d.Retry = "narrow", job.Retry{MaxAttempts: 5, Backoff: job.BackoffNone}
	j := b.create(d)
	attempts, err := b.store.Claim(b.t.Context(), b.session, []job.Key{b.keyOf(j)}, time.Second)
	require.NoError(b.t, err)
	require.Len(b.t, attempts, 1)
	d.Queue, d.Target = "wide", job.Target{Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"h"}`)}
	return attempts[0], j, d
}

const misplaced = `run r JOIN job j ON j.id = r.job_id WHERE r.state = 0
	AND (r.handler IS DISTINCT FROM j.handler OR r.queue_id <> j.queue_id OR r.version <> j.version)`

// TestARetryThatRacesWithAnEditFollowsIt: a run that stays in the queue or with the handler that its job had before is
// never found.
func TestARetryThatRacesWithAnEditFollowsIt(t *testing.T) {
	t.Parallel()
	for name, race := range map[string]func(b *limits, complete, edit func() error){
		// The completion has read the job and waits for another run of its batch.
		"the edit overtakes the retry": func(b *limits, complete, edit func() error) {
			tx, err := b.pool.Begin(b.t.Context())
			require.NoError(b.t, err)
			_, err = tx.Exec(b.t.Context(), `SELECT FROM run r JOIN job j ON j.id = r.job_id
				WHERE j.name <> 'edited' FOR UPDATE OF r`)
			require.NoError(b.t, err)
			completed, edited := make(chan error, 1), make(chan error, 1)
			go func() { completed <- complete() }()
			b.awaitLocks(1, never)
			go func() { edited <- edit() }()
			b.awaitLocks(2, func() bool { return len(edited) > 0 })
			require.NoError(b.t, tx.Commit(b.t.Context()))
			require.NoError(b.t, <-completed)
			require.NoError(b.t, <-edited)
		},
		// The edit has locked the run and waits for the audit log of its namespace.
		"the retry waits for the edit": func(b *limits, complete, edit func() error) {
			tx, err := b.pool.Begin(b.t.Context())
			require.NoError(b.t, err)
			_, err = tx.Exec(b.t.Context(), `LOCK audit_log IN ACCESS EXCLUSIVE MODE`)
			require.NoError(b.t, err)
			completed, edited := make(chan error, 1), make(chan error, 1)
			go func() { edited <- edit() }()
			b.awaitLocks(1, never)
			go func() { completed <- complete() }()
			b.awaitLocks(2, func() bool { return len(completed) > 0 })
			require.NoError(b.t, tx.Commit(b.t.Context()))
			require.NoError(b.t, <-edited)
			require.NoError(b.t, <-completed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupLimits(t)
			attempt, j, d := b.editedRun()
			done := []job.Completion{attempt.Completion(failedOnce)}
			for range 20 { // some of them are locked after it
				done = append(done, b.claimAll(1)[0].Completion(failedOnce))
			}
			var retries []job.Run
			race(b, func() (err error) {
				retries, _, err = b.store.CompleteDecided(t.Context(), done)
				return err
			}, func() error {
				_, err := b.store.UpdateJob(t.Context(), job.UpdateParams{
					Namespace: b.namespace, ID: j.ID, Actor: "ann", Definition: d,
				})
				return err
			})
			require.Equal(t, 21, b.count(`run WHERE state = 0`))
			require.Zero(t, b.count(misplaced))
			require.Equal(t, 1, b.count(`run WHERE handler = 'h' AND NOT needs_sweep`))
			require.GreaterOrEqual(t, len(retries), 20)
		})
	}
}

// TestMisplacedRunsAreMoved: overdue runs are compared with their jobs, a bounded number at a time.
func TestMisplacedRunsAreMoved(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.due(30, nil)
	moved := func() int {
		t.Helper()
		_, _, keys, err := b.store.Reconcile(t.Context(), allPartitions())
		require.NoError(t, err)
		return len(keys)
	}
	b.exec(`UPDATE run SET run_at = now() - interval '10 min'`)
	require.Zero(t, moved())
	b.exec(`INSERT INTO queue (namespace_id, name) VALUES ($1, 'paused')`, b.namespace)
	b.exec(`UPDATE run SET handler = 'gone', needs_sweep = false WHERE ctid = ANY (ARRAY(SELECT ctid FROM run LIMIT 3))`)
	b.exec(`UPDATE run SET queue_id = (SELECT id FROM queue WHERE name = 'paused')
		WHERE ctid = ANY (ARRAY(SELECT ctid FROM run WHERE handler IS NULL LIMIT 2))`)
	b.exec(`DELETE FROM job WHERE id = (SELECT job_id FROM run WHERE handler = 'gone' LIMIT 1)`)
	require.Equal(t, 5, moved())
	require.Zero(t, b.count(misplaced))
	require.Zero(t, b.count(`run WHERE handler IS NOT NULL`), "a node ends the run whose job is gone")
	require.Zero(t, moved())
	b.exec(`UPDATE run SET handler = 'h', run_at = now()`)
	require.Zero(t, moved(), "what is not overdue may be in the middle of a change")
}
