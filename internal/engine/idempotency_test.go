package engine_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// A job's idempotency_key gives one key to all attempts and redrives of a run, even if the job changes in
// the meantime, and the ledger shows it.
func TestIdempotencyKeyOfAJob(t *testing.T) {
	t.Parallel()
	for _, overlap := range []job.Overlap{job.OverlapSkip, job.OverlapQueue} { // by claim, and by admit
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.target.answer = func(a job.Attempt) job.Outcome {
				if a.Number < 4 {
					return job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"}
				}
				return job.Outcome{Kind: job.Succeeded}
			}
			j := b.create(t, "order", schedule.Spec{At: "2026-03-29T01:30:00Z"}, func(d *job.Definition) {
				d.Overlap = overlap
				d.Retry = job.Retry{MaxAttempts: 2, Backoff: job.BackoffNone}
				d.Labels = map[string]string{"team": "billing"}
				d.Payload = json.RawMessage(`{"customer": 12345678}`)
				d.IdempotencyKey = `job.name + "/" + job.labels.team + "/" + job.queue + "/" + ` +
					`string(payload.customer) + "/" + string(due_at.getHours())`
			})
			stop := b.start(t)
			b.eventually(t, "the dead letter", `SELECT count(*) FROM dead_letter`, int64(1))
			const want = "order/billing/default/12345678/1"
			b.eventually(t, "the key of the dead letter",
				`SELECT count(*) FROM dead_letter WHERE idempotency_key = '`+want+`'`, 1)
			d := j.Definition
			d.Name, d.Payload, d.IdempotencyKey = "other", nil, `"other"`
			b.update(t, j, d)
			key := job.Key{Partition: j.Partition, Job: j.ID, DueAt: b.seen()[0].Key.DueAt}
			b.redrive(t, key, overlap == job.OverlapQueue)
			b.eventually(t, "the success", `SELECT count(*) FROM run_history WHERE ended = 1`, int64(1))
			stop()
			for _, a := range b.seen() {
				require.Equal(t, want, a.IdempotencyKey(), "attempt %d", a.Number)
			}
			require.Len(t, b.seen(), 4)
			story, err := b.store.Run(t.Context(), j.Namespace, key)
			require.NoError(t, err)
			for _, e := range story {
				require.Equal(t, want, e.OwnKey)
			}
		})
	}
}

// A run that was delivered under its id keeps it even if the job gets an idempotency_key between its
// attempts: a target that has seen the run must recognize it.
func TestIdempotencyKeyThatIsNew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.target.answer = func(a job.Attempt) job.Outcome {
		switch a.Number {
		case 1:
			panic("it has delivered, and then") //nolint:forbidigo // as a bug in a target would
		case 2:
			return job.Outcome{Kind: job.Failed, Message: "no"}
		default:
			return job.Outcome{Kind: job.Succeeded}
		}
	}
	j := b.create(t, "order", schedule.Spec{At: "2026-03-29T01:30:00Z"}, func(d *job.Definition) {
		d.Retry = job.Retry{MaxAttempts: 1}
	})
	b.start(t)
	b.eventually(t, "the dead letter", `SELECT count(*) FROM dead_letter`, 1)
	d := j.Definition
	d.IdempotencyKey = `"new"`
	b.update(t, j, d)
	key := job.Key{Partition: j.Partition, Job: j.ID, DueAt: b.seen()[0].Key.DueAt}
	b.redrive(t, key, false)
	b.eventually(t, "the dead letter of the second", `SELECT count(*) FROM dead_letter WHERE attempt = 2`, 1)
	b.redrive(t, key, true)
	b.eventually(t, "the success", `SELECT count(*) FROM run_history WHERE ended = 1`, 1)
	for _, a := range b.seen() {
		require.Equal(t, job.FormatRunID(key), a.IdempotencyKey(), "attempt %d", a.Number)
	}
	story, err := b.store.Run(t.Context(), j.Namespace, key)
	require.NoError(t, err)
	for _, e := range story {
		require.Empty(t, e.OwnKey, "it is the id")
	}
}

// So does a run that succeeded immediately, of which no key was stored.
func TestIdempotencyKeyOfASuccessThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := b.create(t, "order", schedule.Spec{At: "2026-03-29T01:30:00Z"}, nil)
	b.start(t)
	b.eventually(t, "the success", `SELECT count(*) FROM run_history WHERE ended = 1`, 1)
	d := j.Definition
	d.IdempotencyKey = `"new"`
	b.update(t, j, d)
	key := job.Key{Partition: j.Partition, Job: j.ID, DueAt: b.seen()[0].Key.DueAt}
	require.NoError(t, b.store.RetryRun(t.Context(), job.RunParams{Namespace: j.Namespace, Key: key, Actor: "test"}))
	b.eventually(t, "the second success", `SELECT count(*) FROM run_history WHERE ended = 1`, 2)
	require.Equal(t, job.FormatRunID(key), b.seen()[1].IdempotencyKey())
}

// If the expression fails, the run fails with a message before anything is delivered. The payload of a
// trigger replaces the job's.
func TestIdempotencyKeyThatFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := b.create(t, "order", schedule.Spec{At: "2026-03-29T01:30:00Z"}, func(d *job.Definition) {
		d.IdempotencyKey = `payload.customer`
	})
	stop := b.start(t)
	b.eventually(t, "the failure", `SELECT count(*) FROM run_history WHERE reason = 'rejected'`, 1)
	b.eventually(t, "its message", `
SELECT count(*) FROM run_history
WHERE message LIKE 'not delivered, as the job''s idempotency_key failed: %; fix the job, then redrive the run'`, 1)
	require.Zero(t, b.target.count())
	o := job.ChangeParams{Namespace: j.Namespace, ID: j.ID, Actor: "test"}
	_, err := b.store.TriggerJob(t.Context(), o, json.RawMessage(`{"customer": "c-7"}`))
	require.NoError(t, err)
	b.eventually(t, "the success", `SELECT count(*) FROM run_history WHERE ended = 1 AND idempotency_key = 'c-7'`, 1)
	require.Equal(t, "c-7", b.seen()[0].IdempotencyKey())

	// The redrive of the run that failed decides the key by the job as it is now.
	d := j.Definition
	d.IdempotencyKey = `"fixed"`
	b.update(t, j, d)
	b.redrive(t, job.Key{}, true)
	b.eventually(t, "the redrive", `SELECT count(*) FROM run_history WHERE ended = 1 AND idempotency_key = 'fixed'`, 1)
	stop()
}

// losesKeys fails to store keys once.
type losesKeys struct {
	*pgtest.Store
	calls atomic.Int32
}

func (s *losesKeys) KeepKeys(ctx context.Context, attempts []*job.Attempt) error {
	if s.calls.Add(1) == 1 {
		return errCut
	}
	return s.Store.KeepKeys(ctx, attempts)
}

// TestNoRunIsDeliveredBeforeItsKeyIsStored, however it is claimed.
func TestNoRunIsDeliveredBeforeItsKeyIsStored(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Definition){
		"claimed":        func(*job.Definition) {},
		"admitted":       func(d *job.Definition) { d.Overlap = job.OverlapQueue },
		"under a permit": func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: "k", Max: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := &losesKeys{Store: b.store}
			b.engine.Claimer, b.engine.Queues, b.engine.Limits = store, store, store
			b.create(t, "order", schedule.Spec{At: "2026-03-29T01:30:00Z"}, func(d *job.Definition) {
				d.IdempotencyKey = `"key"`
				change(d)
			})
			b.target.answer = func(job.Attempt) job.Outcome {
				var stored string
				_ = b.pool.QueryRow(context.Background(), `SELECT idempotency_key FROM run`).Scan(&stored)
				return job.Outcome{Kind: job.Succeeded, Message: stored}
			}
			b.start(t)
			b.eventually(t, "the success", `SELECT count(*) FROM run_history WHERE ended = 1 AND message = 'key'`, 1)
			require.Len(t, b.seen(), 1)
			require.EqualValues(t, 1, b.seen()[0].Number)
			require.Greater(t, store.calls.Load(), int32(1))
		})
	}
}

// update changes the definition of a job.
func (b *bundle) update(t *testing.T, j job.Job, d job.Definition) {
	t.Helper()
	o := job.UpdateParams{Namespace: j.Namespace, ID: j.ID, Actor: "test", Definition: d}
	_, err := b.store.UpdateJob(t.Context(), o)
	require.NoError(t, err)
}

// redrive redrives one run, or all dead letters.
func (b *bundle) redrive(t *testing.T, key job.Key, all bool) {
	t.Helper()
	if !all {
		o := job.RunParams{Namespace: namespace, Key: key, Actor: "test"}
		require.NoError(t, b.store.RedriveDeadLetter(t.Context(), o))
		return
	}
	o := job.OperationParams{Namespace: namespace, Kind: job.Redrive, Rate: 100, Actor: "test"}
	_, err := b.store.BeginOperation(t.Context(), o)
	require.NoError(t, err)
	for {
		worked, err := b.store.WorkOperation(t.Context())
		require.NoError(t, err)
		if !worked {
			return
		}
	}
}

func (b *bundle) seen() []job.Attempt {
	b.target.mu.Lock()
	defer b.target.mu.Unlock()
	return append([]job.Attempt(nil), b.target.seen...)
}
