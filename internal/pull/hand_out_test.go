package pull_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestRunsGoBackIfTheKeyIsOver: a poll that began with a valid key gets no runs if the key is no longer valid, and
// another worker gets them at once. The attempt does not count.
func TestRunsGoBackIfTheKeyIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
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

	got, err = b.pull.Claim(t.Context(), b.open(), job.PullParams{
		Handlers: []string{"h"}, Max: 5, Wait: patience, Check: func() error { return nil },
	})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, key.RunKey(), got[0].Key.RunKey())
	require.Equal(t, 1, b.number(`SELECT free_attempts FROM run`))
}
