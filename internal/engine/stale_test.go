package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// lapsing is a member that does not know whether its session lives, until it ends or lives on.
type lapsing struct {
	soleMember
	unknown, over atomic.Bool
}

func (m *lapsing) Valid() bool { return !m.unknown.Load() && !m.over.Load() }

func (m *lapsing) Session() uuid.UUID {
	if m.over.Load() {
		return uuid.Nil
	}
	return m.session
}

// A run that was claimed and not started when the session ended may belong to another node now. If the
// session did not end, the run is still this node's, and no other node starts it.
func TestNothingStartsWhileTheSessionMayHaveEnded(t *testing.T) {
	t.Parallel()
	for _, lives := range []bool{true, false} {
		t.Run(fmt.Sprintf("lives=%t", lives), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			m := &lapsing{soleMember: b.engine.Member.(soleMember)}
			b.engine.Member, b.engine.Lead = m, 5*time.Second
			due := b.bound.Now().Add(6 * time.Second).Truncate(time.Second)
			b.create(t, "claimed ahead", schedule.Spec{At: due.UTC().Format(time.RFC3339)}, nil)
			b.start(t)
			b.eventually(t, "claimed before it is due", `SELECT count(*) FROM run WHERE state = 1`, 1)
			require.Positive(t, b.bound.Until(due))
			m.unknown.Store(true)
			<-time.After(b.bound.Until(due) + 200*time.Millisecond)
			require.Zero(t, b.target.count())
			if lives {
				m.unknown.Store(false)
				b.eventually(t, "delivered by the attempt that was claimed", `
SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 1`, 1)
				return
			}
			m.over.Store(true)
			m.unknown.Store(false)
			<-time.After(200 * time.Millisecond)
			require.Zero(t, b.target.count())
		})
	}
}
