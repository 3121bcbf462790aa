package postgres_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// woken is jobs whose store records what it reports as due.
type woken struct {
	*jobs
	wakes []job.Wake
}

func setupWoken(t *testing.T) *woken {
	t.Helper()
	b := &woken{jobs: setupJobs(t)}
	b.store = pgtest.StoreOf(postgres.New(b.pool, postgres.Options{
		OnWake: func(w job.Wake) { b.wakes = append(b.wakes, w) },
	}))
	return b
}

// takes returns the one wake-up of a call. There may be none.
func (b *woken) takes(call func()) (w job.Wake) {
	b.t.Helper()
	b.wakes = nil
	call()
	require.LessOrEqual(b.t, len(b.wakes), 1, "one for each transaction")
	for _, w = range b.wakes {
		require.False(b.t, w.Empty())
	}
	return w
}

var daily = schedule.Spec{Every: "24h"}

// Whatever writes a run that is due immediately reports where it is.
func TestDueRunsAreReported(t *testing.T) {
	t.Parallel()
	b := setupWoken(t)
	ctx := t.Context()
	var j job.Job
	in := func() job.Wake { return job.Wake{Partitions: []int16{j.Partition}} }
	change := func() job.ChangeParams { return job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "test"} }

	require.Empty(t, b.takes(func() { j = b.create(definition("later", daily)) }), "it is due tomorrow")
	require.Empty(t, b.takes(func() {
		wrong := change()
		wrong.IfVersion = 7
		_, err := b.store.TriggerJob(ctx, wrong, nil)
		require.ErrorIs(t, err, job.ErrConflict)
	}), "nothing was written")
	require.Equal(t, in(), b.takes(func() {
		_, err := b.store.TriggerJob(ctx, change(), nil)
		require.NoError(t, err)
	}))
	require.Empty(t, b.takes(func() {
		later := change()
		later.At = b.now().Add(time.Hour)
		_, err := b.store.TriggerJob(ctx, later, nil)
		require.NoError(t, err)
	}), "it is due in an hour")
	b.exec(`UPDATE job SET created_at = created_at - interval '3 days'`)
	require.Equal(t, in(), b.takes(func() {
		out, err := b.store.BackfillJob(ctx, job.BackfillParams{
			ChangeParams: change(), From: b.now().Add(-50 * time.Hour), To: b.now(), Max: 1,
		})
		require.NoError(t, err)
		require.Equal(t, 1, out.Runs)
	}))

	d := definition("paused", everySecond)
	d.Missed.Paused = job.MissedOnce
	j = b.create(d)
	b.pause(j)
	b.exec(`UPDATE job SET paused_at = paused_at - interval '5 s', plan_from = plan_from - interval '5 s' WHERE id = $1`,
		j.ID)
	require.Equal(t, in(), b.takes(func() { b.resume(j) }), "it was due while it was paused")

	require.NotEmpty(t, b.takes(func() { j = b.create(definition("now", past)) }).Partitions)
	key := job.Key{Partition: j.Partition, Job: j.ID}
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT due_at FROM run WHERE job_id = $1`, j.ID).Scan(&key.DueAt))
	end := func() {
		b.exec(`INSERT INTO dead_letter (partition, job_id, due_at, seq, queue_id, failed_at, attempt, reason, message,
			status, cause)
			SELECT partition, job_id, due_at, seq, queue_id, now(), 1, 'attempts', '', 0, 'attempts' FROM run WHERE job_id = $1`, j.ID)
		b.exec(`DELETE FROM run WHERE job_id = $1`, j.ID)
	}
	end()
	require.Equal(t, in(), b.takes(func() {
		require.NoError(t, b.store.RetryRun(ctx, job.RunParams{Namespace: b.namespace, Key: key, Actor: "test"}))
	}))
	end()
	_, err := b.store.BeginOperation(ctx, job.OperationParams{
		Namespace: b.namespace, Kind: job.Redrive, Rate: 100, Actor: "test",
	})
	require.NoError(t, err)
	require.Equal(t, in(), b.takes(func() {
		_, err := b.store.WorkOperation(ctx)
		require.NoError(t, err)
	}))
}

// pulled defines a job whose runs workers pull from the queue "work".
func pulled(spec schedule.Spec) job.Definition {
	d := definition("pulled", spec)
	d.Queue, d.Target = "work", job.Target{Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"x"}`)}
	return d
}

// Workers of a queue may wait at any node, so their runs are reported by queue.
func TestDueRunsOfWorkersAreReportedByQueue(t *testing.T) {
	t.Parallel()
	b := setupWoken(t)
	j := b.create(pulled(daily))
	var queue int32
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM queue WHERE name = 'work'`).Scan(&queue))
	require.Equal(t, job.Wake{Queues: map[int32]int64{queue: 0}}, b.takes(func() {
		_, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "test"}, nil)
		require.NoError(t, err)
	}))
}

// Workers may have got later runs before the planner was back.
func TestRunsThatArePlannedLateAreReportedWithTheirTime(t *testing.T) {
	t.Parallel()
	b := setupWoken(t)
	j := b.create(pulled(everySecond))
	late := b.now().Add(-20 * time.Second).Truncate(time.Second)
	b.exec(`UPDATE cursor SET next_due_at = $1`, late)
	b.exec(`UPDATE job SET plan_from = $1`, late)
	w := b.takes(func() { b.plan(time.Minute) })
	var first time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT min(run_at) FROM run WHERE job_id = $1`, j.ID).Scan(&first))
	require.Less(t, first, b.now())
	require.Equal(t, []int64{first.Unix()}, slices.Collect(maps.Values(w.Queues)))
	require.Empty(t, b.takes(func() { b.plan(time.Minute) }))
}

func TestWakesReachListeners(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	wakes := postgres.New(b.pool, postgres.Options{}).Wakes()
	l, err := wakes.Listen(t.Context())
	require.NoError(t, err)
	defer l.Close(t.Context())
	other, err := wakes.Listen(t.Context())
	require.NoError(t, err)
	defer other.Close(t.Context())
	sent := job.Wake{From: "a node", Partitions: []int16{3, 255}, Queues: map[int32]int64{9: 0}}
	b.exec(`SELECT pg_notify('belfry_wake', 'not readable')`)
	require.NoError(t, wakes.Send(t.Context(), sent))
	for _, l := range []*postgres.WakeListener{l, other} {
		w, err := l.Next(t.Context())
		require.NoError(t, err)
		require.True(t, w.Empty(), "what cannot be read is ignored")
		w, err = l.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, sent, w)
	}
	b.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	_, err = l.Next(t.Context())
	require.Error(t, err, "whoever waits learns that the connection is gone")
}

// Behind a pooler nothing listens: the server connection belongs to others too.
func TestNoWakesThroughPgBouncer(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.ThroughPgBouncer(t, pgtest.URL(t)), 2, postgres.Options{})
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Ping(t.Context()))
	_, err = db.Wakes().Listen(t.Context())
	require.ErrorIs(t, err, postgres.ErrPooled)
	require.NoError(t, db.Wakes().Send(t.Context(), job.Wake{Partitions: []int16{1}}))
}
