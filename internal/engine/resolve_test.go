package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// cutOff is a store that loses the replies to the first claims: they commit, and then the connection dies.
type cutOff struct {
	*pgtest.Store
	claims, admits atomic.Int32
}

var errCut = errors.New("the connection died")

func (c *cutOff) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	attempts, err := c.Store.Claim(ctx, session, keys, lead)
	if len(attempts) > 0 && c.claims.Add(1) == 1 {
		return nil, errCut
	}
	return attempts, err
}

func (c *cutOff) Admit(ctx context.Context, session uuid.UUID, key job.Key, lead time.Duration) (job.Admitted, error) {
	admitted, err := c.Store.Admit(ctx, session, key, lead)
	if admitted.Attempt != nil && c.admits.Add(1) == 1 {
		return job.Admitted{}, errCut
	}
	return admitted, err
}

// A claim whose reply is lost leases runs to a live session, so no other node delivers them.
func TestClaimsWhoseReplyWasLostAreDelivered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &cutOff{Store: b.store}
	b.engine.Claimer = store
	soon := schedule.Spec{At: b.bound.Now().Add(time.Second).UTC().Format(time.RFC3339)}
	b.create(t, "claimed", soon, nil)
	// Only Admit decides about a deadline.
	b.create(t, "admitted", soon, func(d *job.Definition) { d.Deadline = job.Duration(time.Hour) })
	b.start(t)
	b.eventually(t, "delivered, at the first attempt", `
SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 1`, 2)
	require.Equal(t, 2, b.target.count())
	require.Positive(t, store.claims.Load())
	require.Positive(t, store.admits.Load())
}
