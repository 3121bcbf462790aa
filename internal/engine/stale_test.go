package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
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

// lapseWhenClaimed is a store after whose first claim it is unknown whether the session lives.
type lapseWhenClaimed struct {
	engine.Claimer
	member *lapsing
	once   sync.Once
}

func (l *lapseWhenClaimed) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	out, err := l.Claimer.Claim(ctx, session, keys, lead)
	if len(out) > 0 {
		l.once.Do(func() { l.member.unknown.Store(true) })
	}
	return out, err
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
			b.engine.Claimer = &lapseWhenClaimed{Claimer: b.engine.Claimer, member: m}
			due := b.bound.Now().Add(6 * time.Second).Truncate(time.Second)
			b.create(t, "claimed ahead", schedule.Spec{At: due.UTC().Format(time.RFC3339)}, nil)
			b.start(t)
			b.eventually(t, "claimed, on a fast machine before it is due", `SELECT count(*) FROM run WHERE state = 1`, 1)
			require.Eventually(t, m.unknown.Load, time.Minute, 5*time.Millisecond)
			<-time.After(max(b.bound.Until(due), 0) + 200*time.Millisecond)
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
