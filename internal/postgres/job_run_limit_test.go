package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// waitingRuns creates runs of a job that are due and pending, from a due time on, one per second.
func (b *jobs) waitingRuns(j job.Job, n int, from time.Time) {
	b.t.Helper()
	b.exec(`
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 needs_sweep)
SELECT j.partition, 1, j.version, j.id, $3::timestamptz + interval '1 s' * i, now() - interval '1 h', 0, 0, j.priority, 2,
       j.admit, j.queue_id, true
FROM job j, generate_series(0, $2 - 1) i WHERE j.id = $1`, j.ID, n, from)
}

// bounded are the numbers of runs that users may give jobs, by their policies.
var bounded = map[string]struct {
	policy job.Policy
	most   int
	says   string
}{
	"allow": {
		job.Policy{Overlap: job.OverlapAllow},
		job.MaxLive,
		"the job has 20000 runs that have not ended, and users may not add more; wait",
	},
	"allow with a deadline": {
		job.Policy{Overlap: job.OverlapAllow, Deadline: job.Duration(time.Hour)},
		job.MaxLive,
		"the job has 20000 runs that have not ended, and users may not add more; wait",
	},
	"default": {
		job.Policy{},
		job.MaxLiveAlone,
		"the job has 5000 runs that have not ended, and users may not add more to a job whose runs may not overlap; wait",
	},
	"queue":     {job.Policy{Overlap: job.OverlapQueue}, job.MaxLiveAlone, "the job has 5000 runs"},
	"queue_all": {job.Policy{Overlap: job.OverlapQueueAll}, job.MaxLiveAlone, "the job has 5000 runs"},
	"replace":   {job.Policy{Overlap: job.OverlapReplace}, job.MaxLiveAlone, "the job has 5000 runs"},
}

// TestUsersAddABoundedNumberOfRuns: triggers and backfills do not give a job more runs than users may add. Its schedule
// is not bound by that.
func TestUsersAddABoundedNumberOfRuns(t *testing.T) {
	t.Parallel()
	for name, c := range bounded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			ctx := t.Context()
			d := definition("full", everyHour)
			d.Policy = c.policy
			j := b.create(d)
			past := b.now().Add(-100 * time.Hour).Truncate(time.Second)
			change := job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "test"}
			trigger := func() (job.Key, error) { return b.store.TriggerJob(ctx, change, nil) }
			backfill := func(dryRun bool) (job.BackfillResult, error) {
				return b.store.BackfillJob(ctx, job.BackfillParams{
					ChangeParams: change, From: past, To: b.now(), Max: 20, DryRun: dryRun,
				})
			}
			refused := func(err error, says string) {
				t.Helper()
				require.ErrorIs(t, err, job.ErrConflict)
				require.ErrorContains(t, err, says)
			}
			bound := c.most - job.LeaveToOthers // of a backfill
			tooMany := fmt.Sprintf("the job has %d runs that have not ended, and backfills may not add more", bound)
			b.waitingRuns(j, c.most-b.count(`run`)-1, past.Add(-1000*time.Hour))
			_, err := trigger()
			require.NoError(t, err)
			require.Equal(t, c.most, b.count(`run`))
			_, err = trigger()
			refused(err, c.says)
			_, err = backfill(false)
			refused(err, tooMany)
			counted, err := backfill(true)
			require.NoError(t, err, "it adds nothing")
			require.Equal(t, 20, counted.Runs)
			require.Equal(t, c.most, b.count(`run`))

			planned := b.plan(3 * time.Hour)
			require.NotEmpty(t, planned.Runs, "occurrences of the schedule are planned all the same")
			b.exec(`DELETE FROM run WHERE seq = 0`)
			b.exec(`DELETE FROM run WHERE ctid IN (SELECT ctid FROM run LIMIT $1)`, b.count(`run`)-bound+3)
			out, err := backfill(false)
			require.NoError(t, err)
			require.Equal(t, 3, out.Runs, "as many as fit")
			require.False(t, out.ContinueFrom.IsZero())
			_, err = backfill(false)
			refused(err, tooMany)
			_, err = trigger()
			require.NoError(t, err, "a backfill leaves some to others")
		})
	}
}

// TestAnUnreadablePolicyHasABound: a job whose policy this version cannot read gets runs by triggers, and others do.
func TestAnUnreadablePolicyHasABound(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("broken", everyHour))
	b.exec(`UPDATE job SET policy = '{"overlap":'`)
	change := job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "test"}
	_, err := b.store.TriggerJob(t.Context(), change, nil)
	require.NoError(t, err)
}

// TestRetriesWaitForRoom: a single retry of a run of a full job is refused. Operations wait until the job has fewer.
func TestRetriesWaitForRoom(t *testing.T) {
	t.Parallel()
	for name, c := range bounded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			ctx := t.Context()
			b.create(definition("empty", everyHour))
			d := definition("full", everyHour)
			d.Policy = c.policy
			j := b.create(d)
			b.exec(`INSERT INTO dead_letter (partition, job_id, due_at, seq, queue_id, failed_at, attempt, reason, message,
                         status, cause)
SELECT partition, id, now() - interval '2 h' * i, 0, queue_id, now() - interval '1 h', 1, '', '', 0, ''
FROM job, generate_series(1, 2) i`)
			b.exec(`DELETE FROM run`)
			b.waitingRuns(j, c.most, b.now().Add(-1000*time.Hour))
			var k job.Key
			require.NoError(t, b.pool.QueryRow(ctx, `SELECT partition, job_id, due_at, seq FROM dead_letter WHERE job_id = $1
				LIMIT 1`, j.ID).Scan(&k.Partition, &k.Job, &k.DueAt, &k.Seq))
			err := b.store.RedriveDeadLetter(ctx, job.RunParams{Namespace: b.namespace, Key: k, Actor: "test"})
			require.ErrorIs(t, err, job.ErrConflict)
			require.ErrorContains(t, err, c.says)

			_, err = b.store.BeginOperation(ctx, job.OperationParams{
				Namespace: b.namespace, Kind: job.Redrive, Rate: 100, Actor: "test",
			})
			require.NoError(t, err)
			work := func() {
				t.Helper()
				b.exec(`UPDATE operation SET next_at = now() WHERE state = 'running'`)
				_, err := b.store.WorkOperation(ctx)
				require.NoError(t, err)
			}
			for range 30 { // it does not give up
				work()
			}
			require.Equal(t, 4, b.count(`dead_letter`))
			require.Equal(t, 1, b.count(`operation WHERE state = 'running' AND done = 0 AND failed = 0 AND next_at > now()
				AND problem LIKE $1`, c.says+"%"))
			b.exec(`DELETE FROM run WHERE ctid IN (SELECT ctid FROM run LIMIT 1)`)
			work()
			require.Zero(t, b.count(`dead_letter`))
			require.Equal(t, c.most+3, b.count(`run`))
		})
	}
}
