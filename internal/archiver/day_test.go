package archiver_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
)

// TestAttemptsOfAllOutcomes: a run that a worker snoozed is archived like any other, and so is an attempt whose outcome
// this version does not know.
func TestAttemptsOfAllOutcomes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	b.exec(`UPDATE run_history SET attempts = (SELECT jsonb_agg(jsonb_build_object('attempt', n, 'outcome', n))
		FROM generate_series(1, 8) n) WHERE job_id = '00000000-0000-0000-0000-000000000007'`)
	a, _ := b.node()
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	m := b.manifest()
	require.EqualValues(t, 100, m.Sum(archive.Runs).Rows)
	q := archive.Query{
		Namespace: uuid.MustParse("00000000-0000-0000-0000-00000000000b"), Job: uuid.UUID{15: 7}, From: day, To: day,
	}
	found := 0
	for r, err := range archive.New(b.store).Runs(t.Context(), q) {
		require.NoError(t, err)
		require.Len(t, r.Attempts, 8)
		require.Equal(t, "snoozed", r.Attempts[6].Outcome)
		require.Equal(t, "8", r.Attempts[7].Outcome)
		found++
	}
	require.Equal(t, 5, found)
}
