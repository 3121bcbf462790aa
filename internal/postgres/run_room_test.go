package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestUsersOfANamespaceAddABoundedNumberOfRuns: a namespace cannot fill the memory of the nodes, which keep all pending
// runs. Others are not affected, and neither is the schedule.
func TestUsersOfANamespaceAddABoundedNumberOfRuns(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	ctx := t.Context()
	b.store.BoundRuns(32, 0)
	other := uuid.New()
	mine := b.create(definition("mine", everyHour))
	theirs, err := b.store.CreateJob(ctx, job.CreateParams{Namespace: other, Definition: definition("theirs", everyHour)})
	require.NoError(t, err)
	b.exec(`DELETE FROM run`)
	trigger := func(j job.Job) error {
		_, err := b.store.TriggerJob(ctx, job.ChangeParams{Namespace: j.Namespace, ID: j.ID, Actor: "test"}, nil)
		return err
	}
	for range 32 {
		require.NoError(t, trigger(mine))
	}
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, postgres.ErrConflict)
		require.ErrorContains(t, err, "the namespace has about 32 runs that have not ended")
	}
	refused(trigger(mine))
	backfill := job.BackfillParams{
		ChangeParams: job.ChangeParams{Namespace: b.namespace, ID: mine.ID, Actor: "test"},
		From:         b.now().Add(-time.Hour), To: b.now(), Max: 1,
	}
	_, err = b.store.BackfillJob(ctx, backfill)
	refused(err)
	backfill.DryRun = true
	_, err = b.store.BackfillJob(ctx, backfill)
	require.NoError(t, err)
	require.NoError(t, trigger(theirs))
	require.NotEmpty(t, b.plan(3*time.Hour).Runs)
	b.exec(`DELETE FROM run`)
	require.NoError(t, trigger(mine))
}

// TestRunsOfANamespaceAreCountedRarely: a count reads the runs of all namespaces.
func TestRunsOfANamespaceAreCountedRarely(t *testing.T) {
	t.Parallel()
	room := postgres.NewRunRoom(1600, time.Hour)
	counts, used := 0, int64(0)
	add := func(n int) error {
		_, err := room.Add(t.Context(), uuid.Nil, n, func() (int64, error) { counts++; return used, nil })
		return err
	}
	for range 100 {
		require.NoError(t, add(1))
		used++
	}
	require.Zero(t, counts, "a 16th of the limit needs no count")
	for add(1) == nil {
		used++
	}
	require.EqualValues(t, 1600, used)
	require.Less(t, counts, 100)
	before := counts
	used = 0
	for range 100 {
		require.Error(t, add(1))
	}
	require.Equal(t, before, counts, "a namespace that is full is not counted again for a time")

	ctx, cancel := context.WithCancel(t.Context())
	busy, end := make(chan struct{}), make(chan struct{})
	counted := make(chan error, 1)
	go func() {
		_, err := room.Add(t.Context(), uuid.Max, 200, func() (int64, error) {
			close(busy)
			<-end
			return 0, nil
		})
		counted <- err
	}()
	<-busy
	cancel()
	_, err := room.Add(ctx, uuid.Max, 1, nil)
	require.ErrorIs(t, err, context.Canceled, "others wait for a count, if they may")
	close(end)
	require.NoError(t, <-counted)
}

// TestRunsThatAreNotAddedAreGivenBack: a request for many runs gets as many as fit, and what it does not add is free for
// others, unless the runs were counted meanwhile: the count did not have them.
func TestRunsThatAreNotAddedAreGivenBack(t *testing.T) {
	t.Parallel()
	room := postgres.NewRunRoom(160, time.Hour)
	counts := 0
	add := func(n int, used int64) *postgres.Addition {
		may, err := room.Add(t.Context(), uuid.Nil, n, func() (int64, error) { counts++; return used, nil })
		require.NoError(t, err)
		return may
	}
	for range 10 {
		may := add(10, 0)
		require.Equal(t, 10, may.N())
		may.GiveBack(10)
	}
	require.Zero(t, counts)

	before := add(10, 0)
	add(1, 0)
	require.Equal(t, 1, counts)
	before.GiveBack(10)
	add(10, 0)
	require.Equal(t, 2, counts)
	many := add(100, 90)
	require.Equal(t, 3, counts)
	require.Equal(t, 70, many.N(), "as many as fit")
	_, err := room.Add(t.Context(), uuid.Nil, 1, nil)
	require.ErrorIs(t, err, postgres.ErrConflict)
	many.GiveBack(3)
	require.Equal(t, 3, add(100, 0).N())
	require.Equal(t, 3, counts)
}

// TestRunsAreGivenBackDuringACount: the count may not have noticed, so the next request counts again, though the namespace
// seemed to be full.
func TestRunsAreGivenBackDuringACount(t *testing.T) {
	t.Parallel()
	room := postgres.NewRunRoom(160, time.Hour)
	used := func(n int64) func() (int64, error) { return func() (int64, error) { return n, nil } }
	may, err := room.Add(t.Context(), uuid.Nil, 160, used(0))
	require.NoError(t, err)
	counting, end, refused := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := room.Add(t.Context(), uuid.Nil, 1, func() (int64, error) {
			close(counting)
			<-end
			return 160, nil
		})
		refused <- err
	}()
	<-counting
	may.GiveBack(10)
	close(end)
	require.ErrorIs(t, <-refused, postgres.ErrConflict)
	_, err = room.Add(t.Context(), uuid.Nil, 1, used(150))
	require.NoError(t, err)
	_, err = room.Add(t.Context(), uuid.Nil, 1, used(160))
	require.ErrorIs(t, err, postgres.ErrConflict)
}

// TestAFullNamespaceRepeatsItsAnswers: a client that did not get the answer to its request sends it again, and gets it
// although no more runs fit. A backfill needs as much as it adds, and one that adds nothing is only counted.
func TestAFullNamespaceRepeatsItsAnswers(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	ctx := t.Context()
	b.store.BoundRuns(8, time.Hour)
	j := b.create(definition("mine", everyHour))
	b.exec(`DELETE FROM run`)
	now := b.now()
	once := func(key string) *job.IdempotentRequest {
		return &job.IdempotentRequest{
			Key: key, Request: [32]byte{1}, Encode: func(any) ([]byte, error) { return []byte(key), nil },
		}
	}
	change := job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "test"}
	trigger := func(o *job.IdempotentRequest) (job.Key, error) {
		p := change
		p.Idempotent = o
		return b.store.TriggerJob(ctx, p, nil)
	}
	backfill := func(o *job.IdempotentRequest) (job.BackfillResult, error) {
		p := job.BackfillParams{ChangeParams: change, From: now.Add(-3 * time.Hour), To: now, Max: job.MaxBackfill}
		p.Idempotent = o
		return b.store.BackfillJob(ctx, p)
	}
	k, err := trigger(nil)
	require.NoError(t, err)
	_, err = b.store.CancelRun(ctx, job.RunParams{Namespace: b.namespace, Key: k, Actor: "test"})
	require.NoError(t, err)
	retry := func(o *job.IdempotentRequest) error {
		return b.store.RetryRun(ctx, job.RunParams{Namespace: b.namespace, Key: k, Actor: "test", Idempotent: o})
	}
	b.exec(`UPDATE run_history SET origin = 2 /* backfill, which needs no payload */`)

	require.NoError(t, retry(once("retry")))
	out, err := backfill(once("backfill"))
	require.NoError(t, err)
	require.Equal(t, 3, out.Runs, "although it could be 10,000, and the rest is for others")
	for range 4 {
		_, err = trigger(once("trigger " + uuid.NewString()))
		require.NoError(t, err)
	}
	require.Equal(t, 8, b.count(`run`))
	_, err = trigger(once("another"))
	require.ErrorContains(t, err, "the namespace has about 8 runs that have not ended")
	require.ErrorIs(t, retry(nil), postgres.ErrConflict)

	repeats := func(key string, call func(o *job.IdempotentRequest) error) {
		t.Helper()
		o := once(key)
		require.ErrorIs(t, call(o), job.ErrAlreadyDone)
		require.Equal(t, key, string(o.Response))
	}
	repeats("retry", retry)
	repeats("backfill", func(o *job.IdempotentRequest) error { _, err := backfill(o); return err })
	require.Equal(t, 8, b.count(`run`))
	require.Zero(t, b.count(`idempotent_response WHERE key = 'another'`), "a refused request is not stored")
}
