package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/why"
)

// TestAQuotaOfRuns: the queues of a namespace share it, runs over it wait, and why says so.
func TestAQuotaOfRuns(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	ctx, mine := t.Context(), b.namespace
	other := uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine'), ($2, 'other')`, mine, other)
	b.due(1, nil) // creates a queue before the quota
	set := func(n *int64) {
		_, err := b.store.SetQuotas(ctx, "mine", access.QuotaParams{access.QuotaRuns: n})
		require.NoError(t, err)
	}
	five := int64(5)
	set(&five)
	keys := b.due(10, func(i int, d *job.Definition) { d.Queue = []string{"narrow", "wide"}[i%2] })
	plain, err := b.store.Claim(ctx, b.session, keys, 0)
	require.NoError(t, err)
	require.Empty(t, plain, "no claim gets around the quota")

	attempts, refused := b.claim(keys[:3]...)
	require.Len(t, attempts, 3)
	require.Empty(t, refused)
	const stop = `UPDATE namespace_rate SET refilled_at = now() + interval '1 hour'` // no new tokens
	b.exec(stop)
	b.exec(`UPDATE namespace_rate SET tokens = 2`)
	attempts, refused = b.claim(keys[3:]...)
	require.Len(t, attempts, 2)
	require.Len(t, refused, 5)
	require.Equal(t, 12*time.Second, refused[0].After, "a fifth of a minute")
	require.True(t, refused[0].Quota)
	all, err := b.store.Quotas(ctx, mine)
	require.NoError(t, err)
	runs := all[len(all)-1]
	require.Equal(t, access.QuotaRuns, runs.Quota)
	require.GreaterOrEqual(t, *runs.Used, int64(5))

	k := refused[0].Key
	stories, err := b.store.Why(ctx, why.Params{Namespace: mine, Job: k.Job, Run: &k})
	require.NoError(t, err)
	require.Equal(t, why.RunQuota, stories[0].Code, stories[0].Text)
	require.Contains(t, stories[0].Text, "waits for the quota of its namespace, which starts 5 runs per minute")

	b.namespace = other
	free := b.due(1, nil)
	plain, err = b.store.Claim(ctx, b.session, free, 0)
	require.NoError(t, err)
	require.Len(t, plain, 1, "another namespace")

	b.exec(`UPDATE namespace_rate SET tokens = 2`)
	attempts, refused = b.claim(keysOf(refused)...)
	require.Len(t, attempts, 2)
	require.Len(t, refused, 3)
	require.Equal(t, 3, b.count(`run WHERE state = 0 AND due_at = any($1) AND job_id = any($2)`, dueOf(refused), jobsOf(refused)),
		"none is dropped")
	set(nil)
	plain, err = b.store.Claim(ctx, b.session, keysOf(refused), 0)
	require.NoError(t, err)
	require.Len(t, plain, 3)
}

func keysOf(refused []refusedRun) (out []job.Key) {
	for _, r := range refused {
		out = append(out, r.Key)
	}
	return out
}

func dueOf(refused []refusedRun) (out []time.Time) {
	for _, r := range refused {
		out = append(out, r.Key.DueAt)
	}
	return out
}

func jobsOf(refused []refusedRun) (out []uuid.UUID) {
	for _, r := range refused {
		out = append(out, r.Key.Job)
	}
	return out
}

// TestALimitAfterAQuotaCountsLiveRuns: runs that started before the namespace had a quota have no permit. A limit that
// their queue gets later counts them nevertheless.
func TestALimitAfterAQuotaCountsLiveRuns(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	ctx := t.Context()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine')`, b.namespace)
	keys := b.due(2, func(_ int, d *job.Definition) { d.Queue = "q" })
	live, err := b.store.Claim(ctx, b.session, keys[:1], 0)
	require.NoError(t, err)
	require.Len(t, live, 1)
	many := int64(1000)
	_, err = b.store.SetQuotas(ctx, "mine", access.QuotaParams{access.QuotaRuns: &many})
	require.NoError(t, err)
	require.NoError(t, b.store.LimitQueue(ctx, job.QueueParams{
		Namespace: b.namespace, Name: "q", Limits: job.QueueLimits{MaxRunning: 1}, Actor: "test",
	}))
	attempts, refused := b.claim(keys[1])
	require.Empty(t, attempts)
	require.Len(t, refused, 1)
	require.Equal(t, 1, refused[0].Running)
}
