package pull

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// shakyStore fails every 300th question about claims.
type shakyStore struct {
	Store
	questions int
	answered  map[uuid.UUID]int // by session
	completed map[uuid.UUID]int // by session
}

func (s *shakyStore) ResolveClaim(
	_ context.Context, session uuid.UUID, keys []job.Key,
) (out []job.Attempt, err error) {
	if s.questions++; s.questions%300 == 0 {
		return nil, errors.New("connection reset")
	}
	s.answered[session]++
	for _, k := range keys {
		out = append(out, job.Attempt{Key: k, Session: session, Number: 7})
	}
	return out, nil
}

func (s *shakyStore) CompletePulled(_ context.Context, done []job.Completion) ([]job.Reported, error) {
	for _, c := range done {
		if c.Attempt == 7 {
			s.completed[c.Session]++
		}
	}
	return make([]job.Reported, len(done)), nil
}

// unresolvedClaims returns one unresolved claim for each of n sessions.
func unresolvedClaims(n int) (all []undelivered) {
	for range n {
		all = append(all, unresolved(job.Key{Job: uuid.New()}, uuid.New(), &queue{id: 1}))
	}
	return all
}

// Claims of many sessions are resolved although the database fails now and then. No question is asked again
// after it was answered.
func TestManyClaimsAreResolvedOnceEach(t *testing.T) {
	t.Parallel()
	store := &shakyStore{answered: map[uuid.UUID]int{}, completed: map[uuid.UUID]int{}}
	p := New(Options{Store: store})
	const sessions = 2500
	p.undelivered.add(unresolvedClaims(sessions))
	p.returnLoop().Run(t.Context())
	require.Len(t, store.answered, sessions)
	require.Len(t, store.completed, sessions)
	for session, n := range store.answered {
		require.Equal(t, 1, n)
		require.Equal(t, 1, store.completed[session])
	}
	require.Empty(t, p.undelivered.list)
	require.Empty(t, p.undelivered.unresolved)
}

// Runs over the limit are left to the rescue, and the log says so.
func TestUndeliveredRunsAreBounded(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	p.undelivered.returning = true // starts no goroutine
	p.returnLater(t.Context(), unresolvedClaims(maxUndelivered-1), nil)
	require.Empty(t, log.String())
	p.returnLater(t.Context(), unresolvedClaims(4), nil)
	require.Contains(t, log.String(), "runs=3 reason=")
	require.Len(t, p.undelivered.list, maxUndelivered)
	require.Len(t, p.undelivered.unresolved, maxUndelivered, "claims do not skip runs that no one asks about")
}
