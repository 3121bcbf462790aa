package pull_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pull"
)

// starts counts what is reported as started.
type starts struct {
	pull.Observer
	n int
}

func (s *starts) Started(int32, time.Duration) { s.n++ }

// TestRunsGoBackIfTheKeyIsOver: a poll that began with a valid key gets no runs if the key is no longer valid, and
// another worker gets them at once. The attempt does not count, and was not started.
func TestRunsGoBackIfTheKeyIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	started := &starts{}
	b.pull = pull.New(pull.Options{Store: b.store, Sessions: b.store, Bound: b.bound, TTL: time.Hour, Observe: started})
	t.Cleanup(b.pull.Stop)
	id, revoked := b.job("a", "h", nil), errors.New("revoked")
	at := b.open()
	checked := 0
	key := b.trigger(id)
	got, err := b.pull.Claim(t.Context(), at, job.PullParams{
		Handlers: []string{"h"}, Max: 5, Wait: patience, Check: func() error { checked++; return revoked },
	})
	require.ErrorIs(t, err, revoked)
	require.Empty(t, got)
	require.Equal(t, 1, checked)
	require.Zero(t, started.n)

	got, err = b.pull.Claim(t.Context(), b.open(), job.PullParams{
		Handlers: []string{"h"}, Max: 5, Wait: patience, Check: func() error { return nil },
	})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, key.RunKey(), got[0].Key.RunKey())
	require.Equal(t, 1, started.n)
	require.Equal(t, 1, b.number(`SELECT free_attempts FROM run`))
}
