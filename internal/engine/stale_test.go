package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// lapsing is a member whose session ends.
type lapsing struct {
	soleMember
	over atomic.Bool
}

func (m *lapsing) Valid() bool { return !m.over.Load() }

// What was claimed and not started when the session ended is another's by now.
func TestNothingStartsWhenTheSessionIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := &lapsing{soleMember: b.engine.Member.(soleMember)}
	b.engine.Member, b.engine.Lead = m, 2*time.Second
	due := b.bound.Now().Add(3 * time.Second).Truncate(time.Second)
	b.create(t, "claimed ahead", schedule.Spec{At: due.UTC().Format(time.RFC3339)}, nil)
	b.start(t)
	b.eventually(t, "claimed before it is due", `SELECT count(*) FROM run WHERE state = 1`, 1)
	require.Positive(t, b.bound.Until(due))
	m.over.Store(true)
	<-time.After(b.bound.Until(due) + 200*time.Millisecond)
	require.Zero(t, b.target.count())
}
