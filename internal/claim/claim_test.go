package claim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/claim"
	"github.com/belfry-dev/belfry/internal/job"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func runOf(id byte, seq int16) job.Run {
	return job.Run{Key: job.Key{Partition: 3, Job: uuid.UUID{id}, DueAt: noon, Seq: seq}}
}

func keyOf(r job.Run) job.Key { return r.Key }

func attemptOf(r job.Run, number int16) job.Attempt { return job.Attempt{Key: r.Key, Number: number} }

// store returns fixed attempts and records what it is asked.
type store struct {
	attempts []job.Attempt
	err      error
	session  uuid.UUID
	keys     []job.Key
}

func (s *store) ResolveClaim(_ context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error) {
	s.session, s.keys = session, keys
	return s.attempts, s.err
}

func TestResolveSeparatesClaimedRuns(t *testing.T) {
	t.Parallel()
	a, b, c, again := runOf(1, 0), runOf(2, 0), runOf(3, 0), runOf(1, 1)
	s := &store{attempts: []job.Attempt{attemptOf(c, 7), attemptOf(a, 2)}} // the store sorts as it likes
	session := uuid.New()
	got, err := claim.Resolve(t.Context(), s, session, []job.Run{a, b, c, again}, keyOf)
	require.NoError(t, err)
	require.Equal(t, session, s.session)
	require.Equal(t, []job.Key{a.Key, b.Key, c.Key, again.Key}, s.keys)
	require.Equal(t, claim.Result[job.Run]{
		Claimed:  []job.Run{a, c},
		Attempts: []job.Attempt{attemptOf(a, 2), attemptOf(c, 7)},
		Rest:     []job.Run{b, again},
	}, got)
}

func TestResolveKnowsNothingAfterAnError(t *testing.T) {
	t.Parallel()
	s := &store{err: errors.New("connection reset")}
	got, err := claim.Resolve(t.Context(), s, uuid.New(), []job.Run{runOf(1, 0)}, keyOf)
	require.ErrorIs(t, err, s.err)
	require.Empty(t, got.Claimed)
	require.Empty(t, got.Rest)
}

// The database returns times in its own zone.
func TestSplitComparesInstants(t *testing.T) {
	t.Parallel()
	run := runOf(1, 0)
	elsewhere := run
	elsewhere.DueAt = noon.In(time.FixedZone("east", 7200))
	got := claim.Split([]job.Run{run}, keyOf, []job.Attempt{attemptOf(elsewhere, 1)})
	require.Equal(t, []job.Run{run}, got.Claimed)
	require.Empty(t, got.Rest)
	got = claim.Split([]job.Run{run}, keyOf, nil)
	require.Empty(t, got.Claimed)
	require.Equal(t, []job.Run{run}, got.Rest)
}
