package engine

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// A failover may lose a claim, and the node may then claim the same attempt again with a new session. Its old attempt
// is fenced, so the new one has to be delivered.
func TestAnAttemptOfANewSessionIsInFlightBesideTheOld(t *testing.T) {
	t.Parallel()
	f := newInFlight()
	a := job.Attempt{Key: job.Key{Job: uuid.New()}, Session: uuid.New(), Number: 1}
	again := a
	again.Session = uuid.New()
	require.True(t, f.add(a))
	require.False(t, f.add(a), "in flight already")
	require.True(t, f.add(again))
	f.remove(&a)
	require.False(t, f.add(again), "the end of the old attempt does not concern it")
}
