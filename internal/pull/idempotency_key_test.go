package pull_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

const startedAnHourAgo = `UPDATE run SET claimed_at = claimed_at - interval '1 hour'`

// The first attempt used the run's id as its idempotency key. Later attempts use it too, although the job was
// given an idempotency_key meanwhile, and however the first attempt ended.
func TestTheKeyOfTheFirstAttemptStays(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bundle, s job.SessionPath, r job.Claimed){
		"failed": func(b *bundle, s job.SessionPath, r job.Claimed) {
			b.report(s, r, job.Outcome{Kind: job.Failed, Retryable: true})
		},
		"snoozed": func(b *bundle, s job.SessionPath, r job.Claimed) { b.report(s, r, job.Outcome{Kind: job.Snoozed}) },
		"timed out": func(b *bundle, s job.SessionPath, r job.Claimed) {
			b.exec(startedAnHourAgo)
			gone, err := b.pull.Heartbeat(b.t.Context(), s, []job.Lease{{Key: r.Key, Attempt: r.Number}})
			require.NoError(b.t, err)
			require.Len(b.t, gone, 1)
		},
		"session lost": func(b *bundle, s job.SessionPath, _ job.Claimed) {
			require.NoError(b.t, b.pull.End(b.t.Context(), s))
			require.Equal(b.t, 1, b.rescued())
		},
		"forgotten by its worker": func(b *bundle, _ job.SessionPath, r job.Claimed) {
			b.exec(startedAnHourAgo)
			engine := pgtest.NewStore(pgtest.AsServer(b.t, b.pool))
			_, found, err := engine.Rescue(b.t.Context(), []int16{r.Key.Partition}, 10)
			require.NoError(b.t, err)
			require.Equal(b.t, 1, found)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.job("a", "x", func(d *job.Definition) {
				d.Retry = job.Retry{MaxAttempts: 5, Backoff: job.BackoffNone}
			})
			b.trigger(id)
			s := b.open()
			first := b.claim(s, 1, patience, "x")
			require.Len(t, first, 1)
			b.setKey(id, `"new"`)
			end(b, s, first[0])
			s = b.open()
			for n := int16(2); n < 4; n++ {
				got := b.claim(s, 1, patience, "x")
				require.Len(t, got, 1)
				require.Equal(t, n, got[0].Number)
				require.Equal(t, job.FormatRunID(first[0].Key), got[0].IdempotencyKey())
				b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true})
			}
		})
	}
}

func TestAComputedKeyStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", func(d *job.Definition) {
		d.Retry, d.IdempotencyKey = job.Retry{MaxAttempts: 5, Backoff: job.BackoffNone}, `"first"`
	})
	b.trigger(id)
	s := b.open()
	for range 3 {
		got := b.claim(s, 1, patience, "x")
		require.Len(t, got, 1)
		require.Equal(t, "first", got[0].IdempotencyKey())
		b.setKey(id, `"second"`)
		b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true})
	}
}

// TestNoRunIsDeliveredBeforeItsKeyIsStored: the node returns a run whose key it could not store, and claims it again.
func TestNoRunIsDeliveredBeforeItsKeyIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.lossy()
	store.keys.Store(1)
	b.trigger(b.job("a", "x", func(d *job.Definition) { d.IdempotencyKey = `"key"` }))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	require.Negative(t, store.keys.Load())
	require.Len(t, got, 1)
	require.EqualValues(t, 2, got[0].Number, "the first attempt was returned")
	require.Equal(t, "key", got[0].IdempotencyKey())
	var stored string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT idempotency_key FROM run`).Scan(&stored))
	require.Equal(t, "key", stored)
}

// setKey changes the idempotency_key of a job.
func (b *bundle) setKey(id uuid.UUID, expression string) {
	b.t.Helper()
	b.update(id, func(d *job.Definition) { d.IdempotencyKey = expression })
}
