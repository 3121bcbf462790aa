package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
)

// spare is a member that owns nothing.
type spare struct{ soleMember }

func (spare) Owned() []int16  { return nil }
func (spare) Owns(int16) bool { return false }

// All nodes died while the clock was a year ahead. Their sessions would own all partitions for a year, so a node that
// owns nothing has to correct them.
func TestANodeWithoutPartitionsCorrectsSessionsThatAreAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ghost := b.engine.Member.Session()
	me := spare{soleMember{uuid.New()}}
	now, err := b.store.Register(t.Context(), me.session, "starts later", time.Hour)
	require.NoError(t, err)
	b.bound.Set(now)
	b.engine.Member = me
	_, err = b.pool.Exec(t.Context(), `UPDATE session SET renewed_at = now() + interval '1 year',
		expires_at = now() + interval '1 year 5 s' WHERE id = $1`, ghost)
	require.NoError(t, err)
	b.start(t)
	b.eventually(t, "no session expires in a year",
		`SELECT count(*) FROM session WHERE expires_at > now() + interval '1 day'`, 0)
}

// failingRescue finds no attempt of nodes, and signals that it is asked for those of workers.
type failingRescue struct {
	engine.Completer
	workers chan struct{}
}

func (*failingRescue) Rescue(context.Context, []int16, int) ([]job.Run, int, error) {
	return nil, 0, errors.New("it takes too long")
}

func (r *failingRescue) RescueWorkers(ctx context.Context, limit int) ([]job.Run, int, error) {
	select {
	case r.workers <- struct{}{}:
	default:
	}
	return r.Completer.RescueWorkers(ctx, limit)
}

// TestWorkersAreRescuedAfterAFailure: runs of workers do not wait until those of nodes can be rescued.
func TestWorkersAreRescuedAfterAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := &failingRescue{b.store, make(chan struct{}, 1)}
	b.engine.Completer = r
	stop := b.start(t)
	<-r.workers
	stop()
}
