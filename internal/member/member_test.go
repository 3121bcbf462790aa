package member

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
)

func TestMembersShare(t *testing.T) {
	t.Parallel()
	c := setup(t)
	// They all have the same name: other schedulers got three leaders from one hostname.
	nodes := []*node{c.start(), c.start(), c.start()}
	c.awaitOwners(nodes...)
	total := 0
	for _, n := range nodes {
		require.True(t, n.Valid())
		owned := n.Owned()
		require.Greater(t, len(owned), 50)
		for _, p := range owned {
			require.True(t, n.Owns(p))
		}
		require.False(t, n.Owns(-1))
		total += len(owned)
		var now time.Time
		c.scan(`SELECT clock_timestamp()`, nil, &now)
		require.False(t, n.bound.Now().IsZero())
		require.False(t, n.bound.Now().Add(-100*time.Millisecond).After(now), "the bound gets the database clock")
	}
	require.Equal(t, partitions, total)
}

// takeover kills one of three members. It returns how long after its last renewal, and after its death,
// the others owned everything, by the database clock.
func takeover(t *testing.T, edit ...func(*Options)) (sinceRenewal, sinceDeath time.Duration) {
	t.Helper()
	c := setup(t)
	a, b, victim := c.start(edit...), c.start(edit...), c.start(edit...)
	c.awaitOwners(a, b, victim)
	session := victim.Session()
	victim.kill()
	var died, expires, now time.Time
	c.scan(`SELECT clock_timestamp(), expires_at FROM session WHERE id = $1`, []any{session}, &died, &expires)
	require.Eventually(t, func() bool {
		var left int
		c.scan(`SELECT count(*), clock_timestamp() FROM partition WHERE owner = $1`, []any{session}, &left, &now)
		return left == 0
	}, patience, often)
	c.awaitOwners(a, b)
	return now.Sub(expires.Add(-victim.o.TTL)), now.Sub(died)
}

func TestTakeoverAfterKill(t *testing.T) {
	t.Parallel()
	sinceRenewal, sinceDeath := takeover(t)
	t.Logf("taken %v after the last renewal, %v after the death", sinceRenewal, sinceDeath)
	require.Less(t, sinceDeath, clocktest.Allow(ttl+time.Second))
}

func TestTakeoverAfterKillWithDefaults(t *testing.T) {
	t.Parallel()
	sinceRenewal, sinceDeath := takeover(t, func(o *Options) { o.TTL, o.Interval = 0, 0 })
	t.Logf("taken %v after the last renewal, %v after the death", sinceRenewal, sinceDeath)
	require.Less(t, sinceDeath, clocktest.Allow(6*time.Second))
}

func TestPartitionsMoveToAMemberThatJoins(t *testing.T) {
	t.Parallel()
	c := setup(t)
	a, b := c.start(), c.start()
	c.awaitOwners(a, b)
	before := map[int16]int64{}
	s, err := c.store.Survey(t.Context())
	require.NoError(t, err)
	for _, o := range s.Ownerships {
		before[o.Partition] = o.Epoch
	}
	sessions := []uuid.UUID{a.Session(), b.Session()}
	old := assign(sessions, partitions)
	joined := c.start()
	c.awaitOwners(a, b, joined)
	s, err = c.store.Survey(t.Context())
	require.NoError(t, err)
	for i, o := range s.Ownerships {
		if o.Owner == old[i] {
			require.Equal(t, before[o.Partition], o.Epoch, "partitions that stayed were not touched")
		} else {
			require.Equal(t, before[o.Partition]+2, o.Epoch, "released once, taken once")
		}
	}
}

// Partitions change owners many times. The callbacks of the cluster check that no two members work on one
// at the same time.
func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := setup(t)
	stays := c.start()
	for range 5 {
		n := c.start()
		c.awaitOwners(stays, n)
		require.NoError(t, n.Drain(t.Context()))
		require.NoError(t, n.Close(t.Context()))
		c.awaitOwners(stays)
	}
	var rows int
	c.scan(`SELECT count(*) FROM session WHERE expires_at > '-infinity'`, nil, &rows)
	require.Equal(t, 1, rows)
}

func TestPausedMember(t *testing.T) {
	t.Parallel()
	c := setup(t)
	var lost []int16
	paused := c.add(func(o *Options) { o.OnGain, o.OnLose = nil, func(p []int16) { lost = p } })
	changed, err := paused.runOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, partitions, changed)
	old := paused.Session()

	other := c.add()
	validAtTake := make(chan bool, partitions)
	other.onGain = func(context.Context, []job.Ownership) { validAtTake <- paused.Valid() || paused.Owns(0) }
	var invalid time.Time
	require.True(t, paused.Valid())
	c.run(other)
	require.Eventually(t, func() bool {
		if !paused.Valid() && invalid.IsZero() {
			c.scan(`SELECT clock_timestamp()`, nil, &invalid)
		}
		return len(other.Owned()) == partitions
	}, patience, time.Millisecond)
	require.False(t, <-validAtTake, "it no longer trusts its session when another member takes its partitions")
	require.Empty(t, paused.Owned())
	var expired time.Time
	c.scan(`SELECT expires_at FROM session WHERE id = $1`, []any{old}, &expired)
	t.Logf("invalid %v before the session expired", expired.Sub(invalid))
	require.True(t, invalid.Before(expired))

	// When it resumes it has lost its partitions. No other node has ended its session.
	require.Empty(t, lost, "it did not run in the meantime")
	_, err = paused.runOnce(t.Context())
	require.NoError(t, err)
	require.Len(t, lost, partitions)
	require.Equal(t, old, paused.Session())
	require.True(t, paused.Valid())
}

func TestDrain(t *testing.T) {
	t.Parallel()
	c := setup(t)
	a, b := c.start(long), c.start(long)
	c.awaitOwners(a, b)
	session := a.Session()
	require.NoError(t, a.Drain(t.Context()))
	require.Empty(t, a.Owned())
	require.True(t, a.Valid(), "runs in flight still need the session")
	c.awaitOwners(b)
	var alive bool
	c.scan(`SELECT expires_at > now() FROM session WHERE id = $1`, []any{session}, &alive)
	require.True(t, alive, "the other node did not wait until the session expired")

	// The session stays alive without partitions for longer than the TTL.
	changed := func() bool { return !a.Valid() || a.Session() != session || len(a.Owned()) > 0 }
	require.Never(t, changed, longTTL*4/3, interval/4)
	require.NoError(t, a.Close(t.Context()))
	require.False(t, a.Valid())
	require.Equal(t, uuid.Nil, a.Session())
	<-a.ended
	var rows int
	c.scan(`SELECT count(*) FROM session WHERE id = $1 AND expires_at > '-infinity'`, []any{session}, &rows)
	require.Zero(t, rows)
	require.Len(t, b.Owned(), partitions)
}

func TestCloseWithoutDrainFreesImmediately(t *testing.T) {
	t.Parallel()
	c := setup(t)
	a, b := c.start(), c.start()
	c.awaitOwners(a, b)
	require.NoError(t, a.Close(t.Context()))
	c.awaitOwners(b)
	require.Error(t, a.Run(t.Context()), "a member runs once")
	require.NoError(t, c.add().Close(t.Context()), "a member that never ran can be closed")
}

func TestIdleMemberIsCheap(t *testing.T) {
	t.Parallel()
	c := setup(t)
	n, other := c.start(), c.start()
	c.awaitOwners(n, other)
	begun, calls := clock.Elapsed(), n.store.calls.Load()
	require.Never(t, func() bool { return false }, 10*interval, interval)
	rounds := float64(clock.Elapsed()-begun) / float64(interval)
	made := float64(n.store.calls.Load() - calls)
	t.Logf("%.0f queries in %.1f intervals", made, rounds)
	require.LessOrEqual(t, made, 2*(rounds+1))
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := New(Options{})
	require.Error(t, err)
	_, err = New(Options{Store: &faulty{}, TTL: time.Second})
	require.Error(t, err)
	m, err := New(Options{Store: &faulty{}})
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, m.Session())
	require.False(t, m.Valid())
	require.False(t, m.Owns(0))
	require.Empty(t, m.Owned())
}

// A partition whose runs need a target that its owner does not have moves to a member that has it.
func TestPartitionsMoveToWhereTheirNeedsAreMet(t *testing.T) {
	t.Parallel()
	c := setup(t)
	a, b := c.start(), c.start()
	c.awaitOwners(a, b)
	var n int
	c.scan(`WITH n AS (UPDATE partition SET needs = '{command}' RETURNING 1), s AS (
			UPDATE session SET info = '{"kinds": ["command", "http"]}' WHERE id = $1)
		SELECT count(*) FROM n`, []any{b.Session()}, &n)
	require.Equal(t, partitions, n)
	require.Eventually(t, func() bool { return len(b.Owned()) == partitions && len(a.Owned()) == 0 }, patience, often)
	b.kill()
	require.Eventually(t, func() bool { return len(a.Owned()) == partitions }, patience, often, "better than none")
}
