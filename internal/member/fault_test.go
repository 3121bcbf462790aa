package member

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// lostEverything waits until a member has lost its partitions, because it no longer trusts its session.
func (c *cluster) lostEverything(n *node) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, owner := range c.owner {
			if owner == n {
				return false
			}
		}
		return !n.Valid()
	}, patience, often)
	require.Empty(c.t, n.Owned())
}

// The database is down for longer than the TTL. All members lose their partitions, keep their sessions, because runs
// are leased to them, and own everything again when the database is back.
func TestSessionsSurviveAnOutage(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]func(context.Context, string) error{
		"refuses": func(context.Context, string) error { return errBroken },
		"hangs":   func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			nodes := []*node{c.start(), c.start(), c.start()}
			c.awaitOwners(nodes...)
			var sessions []uuid.UUID
			for _, n := range nodes {
				sessions = append(sessions, n.Session())
				n.store.before.Store(&down)
			}
			for i, n := range nodes {
				c.lostEverything(n)
				require.Equal(t, sessions[i], n.Session())
			}
			require.Eventually(t, func() (expired bool) {
				c.scan(`SELECT bool_and(expires_at < now()) FROM session`, nil, &expired)
				return expired
			}, patience, often)
			for _, n := range nodes {
				n.store.heal()
			}
			c.awaitOwners(nodes...)
			for i, n := range nodes {
				require.Equal(t, sessions[i], n.Session())
			}
		})
	}
}

// Another node has ended the session and rescued its runs: the member registers a new one.
func TestEndedSessionsDoNotComeBack(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n, other := c.start(), c.start()
	c.awaitOwners(n, other)
	old := n.Session()
	fail := func(context.Context, string) error { return errBroken }
	n.store.before.Store(&fail)
	c.lostEverything(n)
	require.Eventually(t, func() bool {
		_, _, err := c.store.Rescue(t.Context(), []int16{0}, 1)
		require.NoError(t, err)
		var ended bool
		c.scan(`SELECT expires_at = '-infinity' FROM session WHERE id = $1`, []any{old}, &ended)
		return ended
	}, patience, often, "the other member was renewing all along")
	n.store.heal()
	c.awaitOwners(n, other)
	require.NotEqual(t, old, n.Session())
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n, other := c.start(), c.start()
	c.awaitOwners(n, other)
	old := n.Session()
	fail := func(context.Context, string) error { return errBroken }
	n.store.before.Store(&fail)
	c.lostEverything(n)
	c.awaitOwners(other)
	n.store.heal()
	c.awaitOwners(n, other)
	require.Equal(t, old, n.Session(), "nobody has ended it")
}

// TestASlowFailureIsFollowedByAPause: a round of assignment that fails after more than an interval is not repeated at once.
func TestASlowFailureIsFollowedByAPause(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n := c.add(func(o *Options) { o.TTL, o.Interval = time.Hour, time.Millisecond })
	require.NoError(t, n.renewOnce(t.Context()))
	slow := func(ctx context.Context, _ string) error {
		<-time.After(2 * n.o.Interval)
		return errBroken
	}
	n.store.before.Store(&slow)
	pause, err := n.assignRound(t.Context())
	require.ErrorIs(t, err, errBroken)
	require.GreaterOrEqual(t, pause, n.o.Interval/10)
}

// The network drops everything: requests end only with their context.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n, other := c.start(), c.start()
	c.awaitOwners(n, other)
	hang := func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	n.store.before.Store(&hang)
	c.lostEverything(n)
	c.awaitOwners(other)
	n.store.heal()
	c.awaitOwners(n, other)
}

// The database committed, but the reply was lost.
func TestStoreFailsAfterCommit(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"register", "renew", "take", "release", "unregister", "survey"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			n, other := c.add(long), c.start(long)
			var failed int
			fail := func(m string) error {
				if m != method || failed == 3 { // only one loop calls it
					return nil
				}
				failed++
				return errBroken
			}
			n.store.after.Store(&fail)
			c.run(n)
			c.awaitOwners(n, other)
			// The row of a registration whose reply was lost is gone.
			s, err := c.store.Survey(t.Context())
			require.NoError(t, err)
			require.Len(t, s.Sessions, 2)
			third := c.start(long)
			c.awaitOwners(n, other, third)
		})
	}
}

// In all members every third call fails, half of them after the commit. No partition has two owners, and
// when the failures end all partitions are assigned.
func TestStoreFailsAtRandom(t *testing.T) {
	t.Parallel()
	c := setup(t)
	nodes := []*node{c.add(), c.add(), c.add()}
	for _, n := range nodes {
		before := func(context.Context, string) error {
			if rand.IntN(6) == 0 {
				return errBroken
			}
			return nil
		}
		after := func(string) error {
			if rand.IntN(6) == 0 {
				return errBroken
			}
			return nil
		}
		n.store.before.Store(&before)
		n.store.after.Store(&after)
		c.run(n)
	}
	require.Never(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.faults) > 0 }, 3*ttl, often)
	for _, n := range nodes {
		n.store.heal()
	}
	c.awaitOwners(nodes...)
}

// Taking waits for claims in progress, and a commit cannot be cancelled. Neither may cost the session.
func TestHangingTakeDoesNotCostTheSession(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n := c.add(long)
	free, hangs := make(chan struct{}), make(chan struct{}, 1)
	hang := func(_ context.Context, method string) error {
		if method == "take" {
			select {
			case hangs <- struct{}{}:
			default:
			}
			<-free // whatever the context says
		}
		return nil
	}
	n.store.before.Store(&hang)
	c.run(n)
	end := sync.OnceFunc(func() { close(free) })
	t.Cleanup(end) // before the member is killed
	<-hangs
	c.renewsOn(n)
	end()
	n.store.heal()
	c.awaitOwners(n)
}

func TestSlowGain(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n := c.add(long)
	gains := make(chan struct{})
	n.onGain = func(ctx context.Context, _ []job.Ownership) {
		close(gains)
		<-ctx.Done() // as long as it may
	}
	c.run(n)
	<-gains
	c.renewsOn(n)
	require.True(t, n.Owns(0))
	// Drain ends OnGain, and then reports the loss.
	require.NoError(t, n.Drain(t.Context()))
	require.Empty(t, n.Owned())
	c.mu.Lock()
	require.Empty(t, c.owner)
	c.mu.Unlock()
}

// If the store fails during Drain, the member no longer works on anything, and Run releases later.
func TestDrainFails(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n, other := c.start(long), c.start(long)
	c.awaitOwners(n, other)
	fail := func(_ context.Context, method string) error {
		if method == "release" {
			return errBroken
		}
		return nil
	}
	n.store.before.Store(&fail)
	ctx, cancel := context.WithTimeout(t.Context(), interval)
	defer cancel()
	require.Error(t, n.Drain(ctx))
	require.Empty(t, n.Owned())
	require.False(t, c.ownedBy([]*node{other}))
	n.store.heal()
	c.awaitOwners(other)
	require.True(t, n.Valid())
}

// An administrator, or a restore from a backup, may remove a session.
func TestSessionDisappears(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n, other := c.start(), c.start()
	c.awaitOwners(n, other)
	old := n.Session()
	// A member notices at its next renewal. Until then only the epochs of its partitions stop what it does.
	afterwards := func(_ context.Context, method string) error {
		if method == "take" && n.Session() == old {
			return errBroken
		}
		return nil
	}
	other.store.before.Store(&afterwards)
	require.NoError(t, c.store.Unregister(t.Context(), old))
	require.Eventually(t, func() bool { return n.Session() != old }, patience, often)
	c.awaitOwners(n, other)
}

// A session that was renewed in time is not trusted if the reply comes after its trust has ended. It leaves no second
// session behind, which would be assigned partitions.
func TestReplyTooLate(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n := c.add()
	_, err := n.runOnce(t.Context())
	require.NoError(t, err)
	old := n.Session()
	late := func(method string) error {
		if method == "renew" {
			timer := time.NewTimer(ttl)
			defer timer.Stop()
			<-timer.C
		}
		return nil
	}
	n.store.after.Store(&late)
	_, err = n.runOnce(t.Context())
	require.Error(t, err)
	require.False(t, n.Valid())
	require.Empty(t, n.Owned())
	n.store.heal()
	_, err = n.runOnce(t.Context())
	require.NoError(t, err)
	require.True(t, n.Valid())
	require.Equal(t, old, n.Session())
	require.Len(t, n.Owned(), partitions)
	var sessions int
	c.scan(`SELECT count(*) FROM session WHERE expires_at > now()`, nil, &sessions)
	require.Equal(t, 1, sessions)
}
