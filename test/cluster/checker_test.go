package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestChecker: without faults the checker finds nothing, although all nodes have the same name. It finds each problem
// that the test creates.
func TestChecker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{nodes: 3, env: steady})
	c.create(20, 5*time.Second, unhurried)
	c.finish(patience)
	want := c.check()
	t.Logf("lateness %s", c.lateness())
	t.Log(want)
	c.clean(want)
	require.Zero(t, want.duplicates)
	c.stop() // otherwise it would correct them

	change := func(sql string, args ...any) {
		t.Helper()
		tag, err := c.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	const one = `(SELECT min(due_at) FROM run_history WHERE job_id = $1)`
	a, b, other := c.jobs[0].ID, c.jobs[1].ID, uuid.New()

	change(`DELETE FROM run_history WHERE job_id = $1 AND due_at = `+one, a)
	want.lost++
	require.Equal(t, want, c.check(), "a run that is not in the ledger")

	const columns = `partition, seq, version, due_at, run_at, started_at, ended_at, ended, attempt, origin, status`
	change(
		`INSERT INTO run_history (job_id, `+columns+`) SELECT job_id, `+columns+` FROM run_history WHERE job_id = $1 `+
			`AND due_at = `+one,
		b,
	)
	want.lost++
	require.Equal(t, want, c.check(), "a run that is in the ledger twice")

	change(
		`INSERT INTO run_history (job_id, `+columns+`) SELECT $2, `+columns+` FROM run_history WHERE job_id = $1 AND `+
			`due_at = `+one,
		a, other,
	)
	want.phantom++
	require.Equal(t, want, c.check(), "a run of a job that is not there")

	change(`UPDATE run_history SET ended = 2 WHERE job_id = $1 AND due_at = `+one, a)
	want.failed++
	require.Equal(t, want, c.check(), "a run that failed")

	change(`
INSERT INTO run (job_id, partition, seq, version, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
    needs_sweep, session_id)
SELECT $2, partition, seq, version, due_at, run_at, 1, 1, 0, 0, 0, 1, false, $2
FROM run_history WHERE job_id = $1 AND due_at = `+one, a, other)
	want.stuck++
	require.Equal(t, want, c.check(), "a run that is leased to a session which is dead")

	last := *c.sink.receipts[len(c.sink.receipts)-1]
	again := last
	again.attempt = "2"
	c.sink.receipts = append(c.sink.receipts, &again)
	want.duplicates++
	require.Equal(t, want, c.check(), "a run that was received twice")

	c.sink.receipts = append(c.sink.receipts, &again)
	want.duplicates++
	want.repeated++
	require.Equal(t, want, c.check(), "an attempt that was received twice")

	c.sink.receipts[0].received = c.sink.receipts[0].due.Add(-time.Microsecond)
	want.early++
	require.Equal(t, want, c.check(), "a run that was received before its time")

	stranger := last
	stranger.run = "run_of_nobody"
	c.sink.receipts = append(c.sink.receipts, &stranger)
	want.phantom++
	require.Equal(t, want, c.check(), "a run that was received and is not in the ledger")

	c.sink.receipts = slices.DeleteFunc(c.sink.receipts, func(x *receipt) bool { return x.run == last.run })
	want.duplicates, want.repeated = 0, 0
	want.lost++
	require.Equal(t, want, c.check(), "a run that succeeded and was never received")
}
