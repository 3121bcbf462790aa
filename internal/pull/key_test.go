package pull_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// A run that a worker got under its id keeps it, though the job is given an
// idempotency_key between its attempts, and however the first one ended.
func TestTheKeyOfTheFirstAttemptStays(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bundle, s job.SessionPath, r job.Claimed){
		"failed": func(b *bundle, s job.SessionPath, r job.Claimed) {
			b.report(s, r, job.Outcome{Kind: job.Failed, Retryable: true})
		},
		"snoozed": func(b *bundle, s job.SessionPath, r job.Claimed) { b.report(s, r, job.Outcome{Kind: job.Snoozed}) },
		"timed out": func(b *bundle, s job.SessionPath, r job.Claimed) {
			b.exec(`UPDATE run SET claimed_at = claimed_at - interval '1 hour'`)
			gone, err := b.pull.Heartbeat(b.t.Context(), s, []job.Lease{{Key: r.Key, Attempt: r.Number}})
			require.NoError(b.t, err)
			require.Len(b.t, gone, 1)
		},
		"lost": func(b *bundle, s job.SessionPath, _ job.Claimed) {
			require.NoError(b.t, b.pull.End(b.t.Context(), s))
			_, found, err := b.store.RescueWorkers(b.t.Context(), 10)
			require.NoError(b.t, err)
			require.Equal(b.t, 1, found)
		},
		"forgotten": func(b *bundle, _ job.SessionPath, r job.Claimed) {
			b.exec(`UPDATE run SET claimed_at = claimed_at - interval '1 hour'`)
			_, found, err := pgtest.NewStore(pgtest.AsServer(b.t, b.pool)).Rescue(b.t.Context(), []int16{r.Key.Partition}, 10)
			require.NoError(b.t, err)
			require.Equal(b.t, 1, found)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.job("a", "x", func(d *job.Definition) { d.Retry = job.Retry{MaxAttempts: 5, Backoff: job.BackoffNone} })
			b.trigger(id)
			s := b.open()
			first := b.claim(s, 1, patience, "x")
			require.Len(t, first, 1)
			b.keyed(id, `"new"`)
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

// And one that an expression gave stays too.
func TestTheKeyOfAnExpressionStays(t *testing.T) {
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
		b.keyed(id, `"second"`)
		b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true})
	}
}

// keyed gives a job an idempotency_key.
func (b *bundle) keyed(id uuid.UUID, key string) {
	b.t.Helper()
	j, err := b.store.Job(b.t.Context(), access.DefaultNamespace, id)
	require.NoError(b.t, err)
	j.IdempotencyKey = key
	_, err = b.store.UpdateJob(b.t.Context(), job.UpdateParams{Namespace: access.DefaultNamespace, ID: id, Definition: j.Definition, Actor: "test"})
	require.NoError(b.t, err)
}

func (b *bundle) report(s job.SessionPath, r job.Claimed, o job.Outcome) {
	b.t.Helper()
	why, err := b.pull.Complete(b.t.Context(), s, []job.Completion{{Key: r.Key, Attempt: r.Number, Outcome: o}})
	require.NoError(b.t, err)
	require.Equal(b.t, []job.GoneReason{""}, why)
}

func (b *bundle) exec(query string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), query, args...)
	require.NoError(b.t, err)
}
