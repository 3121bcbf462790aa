package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// rescue calls Rescue and returns how many runs it found, and whether it read the whole partition to find them.
func (b *bulk) rescue(r *recording) (found int, searched bool) {
	b.t.Helper()
	sent := r.during(func() {
		var err error
		_, found, err = b.store.Rescue(b.t.Context(), allPartitions(), 100)
		require.NoError(b.t, err)
	})
	return found, slices.ContainsFunc(sent, func(s statement) bool {
		return strings.Contains(s.sql, "FROM run") && strings.Contains(s.sql, "partition = ANY")
	})
}

// TestRescueSearchesWhenASessionDied: reading all live runs each second would cost more than the work itself, most of
// all while an old snapshot is open.
func TestRescueSearchesWhenASessionDied(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(100)
	b.pending(2)
	other := uuid.New()
	_, err := b.store.Register(t.Context(), other, "other", time.Hour)
	require.NoError(t, err)

	found, searched := b.rescue(r)
	require.Zero(t, found)
	require.True(t, searched, "the first time nothing is known")
	done := b.claim(b.keys(20))
	found, searched = b.rescue(r)
	require.Zero(t, found)
	require.False(t, searched, "nobody died")

	// Partitions move while their runs go on; then the session that works on those dies.
	b.exec(`UPDATE run SET session_id = $1 WHERE job_id = $2`, other, done[0].Key.Job)
	found, _ = b.rescue(r)
	require.Zero(t, found)
	b.exec(pgtest.ExpireSession, other)
	found, searched = b.rescue(r)
	require.Equal(t, 1, found)
	require.True(t, searched)
	found, searched = b.rescue(r)
	require.Zero(t, found)
	require.False(t, searched)

	// Runs of a partition that is new to this node may belong to any session.
	b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE job_id = $1`, done[1].Key.Job)
	mine := slices.DeleteFunc(allPartitions(), func(p int16) bool { return p == done[1].Key.Partition })
	_, n, err := b.store.Rescue(t.Context(), mine, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	found, _ = b.rescue(r)
	require.Equal(t, 1, found)
}

// TestRescueFindsWhatIsOverdueByKey: a target accepted the run and never reported.
func TestRescueFindsWhatIsOverdueByKey(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(100)
	b.pending(1)
	done := b.claim(b.keys(3))
	for i := range done {
		done[i].Outcome = job.Outcome{Kind: job.Accepted}
	}
	_, fenced, err := b.store.CompleteDecided(t.Context(), done)
	require.NoError(t, err)
	require.Zero(t, fenced)
	found, _ := b.rescue(r)
	require.Zero(t, found, "there is time left")
	b.exec(`UPDATE run SET expires_at = now() WHERE job_id = $1`, done[0].Key.Job)
	found, searched := b.rescue(r)
	require.Equal(t, 1, found)
	require.False(t, searched)

	// Overdue for longer than any search: its partition had no owner.
	b.exec(`UPDATE run SET expires_at = now() - interval '1 day' WHERE job_id = $1`, done[1].Key.Job)
	mine := slices.DeleteFunc(allPartitions(), func(p int16) bool { return p == done[1].Key.Partition })
	_, n, err := b.store.Rescue(t.Context(), mine, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	found, _ = b.rescue(r)
	require.Equal(t, 1, found)
}

// TestAnUnreadablePolicyDelaysNoOtherRun: ended runs leave, and lost runs are rescued, with the default policy.
func TestAnUnreadablePolicyDelaysNoOtherRun(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(100)
	b.pending(1)
	done := b.claim(b.keys(5))
	b.exec(`UPDATE job SET policy = '{"retry": 7' WHERE id = $1`, done[2].Key.Job)
	b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE state = 1`)
	retries, found, err := b.store.Rescue(t.Context(), allPartitions(), 100)
	require.NoError(t, err)
	require.Equal(t, 5, found)
	require.Len(t, retries, 5)
}
