package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestOutputOfAttempts: the output of an attempt is visible while it runs and is stored when it ends. An attempt that
// was replaced writes nothing more.
func TestOutputOfAttempts(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	ctx := t.Context()
	var namespace uuid.UUID
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT namespace_id FROM job`).Scan(&namespace))
	write := func(attempt int16, text string) int {
		n, err := b.store.WriteOutputs(ctx, []job.Output{{
			Key: b.key, Session: b.session, Attempt: attempt, Namespace: namespace, Text: text,
			Total: 100 + int64(len(text)),
		}})
		require.NoError(t, err)
		return n
	}
	read := func(ns uuid.UUID) (out []string) {
		all, err := b.store.Outputs(ctx, ns, b.key)
		require.NoError(t, err)
		for i, o := range all {
			require.EqualValues(t, 100+len(o.Text), o.Total)
			require.EqualValues(t, i+1, o.Attempt)
			out = append(out, o.Text)
		}
		return out
	}
	complete := func(attempt int16, o job.Outcome) (fenced int) {
		o.OutputTotal = 100 + int64(len(o.Output))
		_, fenced, err := b.store.CompleteDecided(ctx, []job.Completion{
			{Key: b.key, Session: b.session, Attempt: attempt, Outcome: o},
		})
		require.NoError(t, err)
		return fenced
	}
	count := func(table string) (n int) {
		require.NoError(t, b.pool.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}

	require.Zero(t, write(1, "not claimed"))
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	require.Equal(t, 1, write(1, "one"))
	require.Equal(t, 1, write(1, "one, two"))
	require.Equal(t, []string{"one, two"}, read(namespace))
	require.Empty(t, read(uuid.New()), "another namespace")
	require.Zero(t, complete(1, job.Outcome{Kind: job.Lost}))
	_, err := b.pool.Exec(ctx, `UPDATE run SET run_at = now()`)
	require.NoError(t, err)
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	require.Zero(t, write(1, "stale"))
	require.Equal(t, 1, complete(1, job.Outcome{Kind: job.Succeeded, Output: "stale"}))
	require.Equal(t, []string{"one, two"}, read(namespace), "until there is more")

	require.Zero(t, complete(2, job.Outcome{Kind: job.Failed, Retryable: true, Output: "second"}))
	require.Zero(t, count("run_output_live"))
	_, err = b.pool.Exec(
		ctx,
		`INSERT INTO run_output_live SELECT partition, seq, 1, job_id, due_at, namespace_id, 108, 'one, two'
			FROM run_output`,
	)
	require.NoError(t, err)
	require.Equal(t, []string{"one, two", "second"}, read(namespace))
	n, err := b.store.DropStaleOutputs(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	_, err = b.pool.Exec(ctx, `UPDATE run SET run_at = now()`)
	require.NoError(t, err)
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	require.Equal(t, 1, write(3, "third"))
	n, err = b.store.DropStaleOutputs(ctx, 10)
	require.NoError(t, err)
	require.Zero(t, n, "it is under way")
	require.Zero(t, complete(3, job.Outcome{Kind: job.Succeeded, Output: "third and last"}))
	all, err := b.store.Outputs(ctx, namespace, b.key)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "third and last", all[1].Text)
	require.Zero(t, count("run"))

	// By days, like history.
	_, err = b.pool.Exec(
		ctx,
		`CREATE TABLE run_output_20200101 PARTITION OF run_output
			FOR VALUES FROM ('2020-01-01+00') TO ('2020-01-02+00')`,
	)
	require.NoError(t, err)
	dropped, err := b.store.DropHistory(ctx, 24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, []string{"run_output_20200101"}, dropped)
}
