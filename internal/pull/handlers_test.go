package pull_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pull"
)

// notes counts what is stored, and fails while fails is set.
type notes struct {
	store pull.HandlerNotes
	calls atomic.Int32
	fails atomic.Bool
}

func (n *notes) NoteHandlers(ctx context.Context, w job.WorkerSession, handlers []string) error {
	n.calls.Add(1)
	if n.fails.Load() {
		return errors.New("the database is down")
	}
	return n.store.NoteHandlers(ctx, w, handlers)
}

// TestHandlersAreStoredOnce per session and node, and a claim works without that.
func TestHandlersAreStoredOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := &notes{store: b.store}
	b.pull = pull.New(pull.Options{
		Store: b.store, Sessions: b.store, Handlers: n, Bound: b.bound, TTL: time.Minute,
	})
	t.Cleanup(b.pull.Stop)
	at := b.open()
	stored := func() (out []string) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT handlers FROM session WHERE id = $1`, at.ID).Scan(&out))
		return out
	}
	n.fails.Store(true)
	b.claim(at, 1, 0, "invoice")
	require.Nil(t, stored())
	n.fails.Store(false)
	for range 3 {
		b.claim(at, 1, 0, "invoice", "mail")
		b.claim(at, 1, 0, "mail")
	}
	require.Equal(t, []string{"invoice", "mail"}, stored())
	require.EqualValues(t, 2, n.calls.Load())
	b.claim(at, 1, 0, "archive")
	require.Equal(t, []string{"archive", "invoice", "mail"}, stored())
}
