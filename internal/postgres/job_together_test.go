package postgres_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// createJobs creates jobs with a schedule of every minute.
func (b *bulk) createJobs(n int) (out []job.Job) {
	b.t.Helper()
	var params job.BulkParams
	params.Namespace = bulkNamespaceID
	for i := range n {
		params.Jobs = append(params.Jobs, job.NewJob{Definition: job.Definition{
			Name: fmt.Sprintf("job-%d", i), Schedule: schedule.Spec{Every: "1m"}, Target: job.Target{Kind: "noop"},
		}})
	}
	made, err := b.store.CreateJobs(b.t.Context(), params)
	require.NoError(b.t, err)
	for _, m := range made {
		require.NoError(b.t, m.Err)
		out = append(out, m.Job)
	}
	return out
}

// TestManyChangesShareTheirRoundTrips: a change of many jobs costs few round trips for each of them. One after the
// other, each would take 14, and a commit.
func TestManyChangesShareTheirRoundTrips(t *testing.T) {
	t.Parallel()
	const jobs = 100
	r := &recording{}
	b := setupBulk(t, r)
	created := b.createJobs(jobs)

	trips := func(what string, most float64, work func()) {
		r.during(work)
		perJob := float64(r.trips) / jobs
		t.Logf("%s: %.2f round trips per job", what, perJob)
		require.LessOrEqual(t, perJob, most, what)
	}
	updates := make([]job.UpdateParams, jobs)
	for i, j := range created {
		j.Description = "changed"
		updates[i] = job.UpdateParams{Namespace: bulkNamespaceID, ID: j.ID, Definition: j.Definition, Actor: "ann"}
	}
	trips("update", 0.2, func() {
		for _, out := range b.store.UpdateMany(t.Context(), updates) {
			require.NoError(t, out.Err)
			require.False(t, out.Same)
			require.EqualValues(t, 2, out.Job.Version)
			require.Equal(t, "changed", out.Job.Description)
		}
	})
	for _, out := range b.store.UpdateMany(t.Context(), updates) {
		require.NoError(t, out.Err)
		require.True(t, out.Same)
	}
	operate := func(kind job.OperationKind, change job.OperationChange, most float64) {
		o, err := b.store.BeginOperation(t.Context(), job.OperationParams{
			Namespace: bulkNamespaceID, Kind: kind, Set: job.OperationSet{Jobs: &job.Filter{Queue: "default"}},
			Change: change, Rate: 1000, Actor: "ann",
		})
		require.NoError(t, err)
		trips(string(kind), most, func() {
			worked, err := b.store.WorkOperation(t.Context())
			require.NoError(t, err)
			require.True(t, worked)
		})
		require.Eventually(t, func() bool { // it finds that there are no more
			_, err := b.store.WorkOperation(t.Context())
			require.NoError(t, err)
			o, err = b.store.Operation(t.Context(), bulkNamespaceID, o.ID)
			require.NoError(t, err)
			return o.State == job.OperationFinished
		}, time.Minute, 10*time.Millisecond)
		require.EqualValues(t, jobs, o.Done)
		require.Zero(t, o.Failed)
	}
	operate(job.PauseJobs, job.OperationChange{Note: "n"}, 2.5)
	operate(job.ResumeJobs, job.OperationChange{}, 4.5)
	operate(job.RelabelJobs, job.OperationChange{Set: map[string]string{"a": "b"}}, 0.5)
	operate(job.DeleteJobs, job.OperationChange{}, 1.5)
	last, broken, err := b.store.VerifyAudit(t.Context(), bulkNamespaceID, access.AuditCheck{}, 10_000)
	require.NoError(t, err)
	require.False(t, broken)
	require.GreaterOrEqual(t, last.Seq, int64(5*jobs), "each change has its entry")
}

// TestAJobMayTakeTheCursorThatAnotherOneLeaves: in the same change, one job leaves a cursor and another one moves to it.
func TestAJobMayTakeTheCursorThatAnotherOneLeaves(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	jobs := b.createJobs(200)
	slices.SortStableFunc(jobs, func(a, b job.Job) int { return cmp.Compare(a.Partition, b.Partition) })
	shift := func(by int) {
		updates := make([]job.UpdateParams, len(jobs))
		for i, j := range jobs {
			j.Schedule = schedule.Spec{Cron: fmt.Sprintf("%d 2 * * *", i%3+by)}
			updates[i] = job.UpdateParams{Namespace: bulkNamespaceID, ID: j.ID, Definition: j.Definition}
		}
		for _, out := range b.store.UpdateMany(t.Context(), updates) {
			require.NoError(t, out.Err)
		}
	}
	number := func(sql string) (n int) {
		require.NoError(t, b.pool.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	const lost = `SELECT count(*) FROM job j
		WHERE NOT EXISTS (SELECT FROM cursor c WHERE c.partition = j.partition AND c.id = j.cursor_id)`
	const empty = `SELECT count(*) FROM cursor c
		WHERE NOT EXISTS (SELECT FROM job j WHERE c.partition = j.partition AND c.id = j.cursor_id)`
	for by := range 4 {
		shift(by)
		require.Zero(t, number(lost), "jobs without a cursor")
		require.Zero(t, number(empty), "cursors without a job")
	}
}

// TestAJobThatCannotBeUpdatedDoesNotHinderOthers: the others of its transaction are changed.
func TestAJobThatCannotBeUpdatedDoesNotHinderOthers(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	var updates []job.UpdateParams
	for _, j := range b.createJobs(5) {
		j.Description = "changed"
		updates = append(updates, job.UpdateParams{Namespace: bulkNamespaceID, ID: j.ID, Definition: j.Definition})
	}
	updates[1].Definition.Name = updates[0].Definition.Name
	updates[3].ID = uuid.Must(uuid.NewV7())
	out := b.store.UpdateMany(t.Context(), updates)
	for i, want := range []error{nil, job.ErrConflict, nil, job.ErrNotFound, nil} {
		require.ErrorIs(t, out[i].Err, want, i)
		if want == nil {
			require.Equal(t, "changed", out[i].Job.Description)
		}
	}
}

// TestManyChangesLockRunsInOrder: a completion has locked the run of one job and waits for that of another. A change of
// both jobs waits for the first run before it locks the second, whatever the order of its parameters.
func TestManyChangesLockRunsInOrder(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	created := b.createJobs(20) // in several partitions
	slices.SortFunc(created, func(x, y job.Job) int { return cmp.Compare(x.Partition, y.Partition) })
	low, high := created[0], created[len(created)-1]
	require.Less(t, low.Partition, high.Partition)
	var updates []job.UpdateParams
	for _, j := range []job.Job{high, low} {
		_, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: bulkNamespaceID, ID: j.ID}, nil)
		require.NoError(t, err)
		j.Description = "changed"
		updates = append(updates, job.UpdateParams{Namespace: bulkNamespaceID, ID: j.ID, Definition: j.Definition})
	}
	b.exec(`UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = now() WHERE seq > 0`, b.session)
	all := jobs{t: t, pool: b.pool}
	tx := all.begin()
	const lockRun = `SELECT FROM run WHERE job_id = $1 AND seq > 0 FOR UPDATE`
	_, err := tx.Exec(t.Context(), lockRun, low.ID)
	require.NoError(t, err)
	updated := make(chan []job.BulkResult, 1)
	go func() { updated <- b.store.UpdateMany(t.Context(), updates) }()
	all.awaitLocks(1, func() bool { return len(updated) > 0 })
	_, err = tx.Exec(t.Context(), lockRun+` NOWAIT`, high.ID)
	require.NoError(t, err, "the change has the later run, and waits for the earlier one")
	require.NoError(t, tx.Commit(t.Context()))
	for _, out := range <-updated {
		require.NoError(t, out.Err)
	}
}

// TestTheRateOfAnOperationIsKept: the next batch is due when its rate says, counted from when this one was due: what a
// batch takes itself does not make the operation slower.
func TestTheRateOfAnOperationIsKept(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.createJobs(150)
	o, err := b.store.BeginOperation(t.Context(), job.OperationParams{
		Namespace: bulkNamespaceID, Kind: job.PauseJobs, Set: job.OperationSet{Jobs: &job.Filter{Queue: "default"}},
		Rate: 100, Actor: "ann",
	})
	require.NoError(t, err)
	b.exec(`UPDATE operation SET next_at = now() - interval '0.9 s'`) // as if the batch took that long
	worked, err := b.store.WorkOperation(t.Context())
	require.NoError(t, err)
	require.True(t, worked)
	ended := b.now()
	o, err = b.store.Operation(t.Context(), bulkNamespaceID, o.ID)
	require.NoError(t, err)
	require.EqualValues(t, 100, o.Done)
	var next time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT next_at FROM operation`).Scan(&next))
	require.Less(t, next.Sub(ended), 900*time.Millisecond)
}
