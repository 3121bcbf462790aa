package member

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

func TestMembersShare(t *testing.T) {
	t.Parallel()
	c := setup(t)
	// They all have the same name: other schedulers got three leaders from one hostname.
	nodes := []*node{c.start(long), c.start(long), c.start(long)}
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

// survivor is a member that takes over from another one.
type survivor struct {
	*node
	mu      sync.Mutex
	surveys []job.Survey
	pause   time.Duration // the longest that it chose between two rounds
}

// survivor starts one that keeps its session.
func (c *cluster) survivor(edit func(*Options)) *survivor {
	s := &survivor{}
	s.node = c.add(edit, long, func(o *Options) {
		o.OnRound = func(loop string) {
			if loop == "assign" {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.pause = max(s.pause, time.Duration(s.nextAssign.Load())-clock.Elapsed())
			}
		}
	})
	seen := func(survey job.Survey) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.surveys = append(s.surveys, survey)
	}
	s.store.survey.Store(&seen)
	c.run(s.node)
	return s
}

// left returns how many surveys after a time found a partition of a dead session that this member should take.
func (s *survivor) left(dead uuid.UUID, after time.Time, right []uuid.UUID) (n int) {
	for _, survey := range s.surveys {
		if survey.Now.After(after) && slices.ContainsFunc(survey.Ownerships, func(o job.Ownership) bool {
			return o.Owner == dead && right[o.Partition] == s.Session()
		}) {
			n++
		}
	}
	return n
}

// takeover kills one of three members. The others take what it owned as soon as they find its session expired, and they
// look often.
func takeover(t *testing.T, edit func(*Options)) {
	t.Helper()
	c := setup(t)
	victim := c.add(edit)
	a, b := c.survivor(edit), c.survivor(edit)
	c.run(victim)
	c.awaitOwners(a.node, b.node, victim)
	session := victim.Session()
	victim.kill()
	var expires, now time.Time
	c.scan(`SELECT expires_at FROM session WHERE id = $1`, []any{session}, &expires)
	require.Eventually(t, func() bool {
		var left int
		c.scan(`SELECT count(*), clock_timestamp() FROM partition WHERE owner = $1`, []any{session}, &left, &now)
		return left == 0
	}, patience, often)
	c.awaitOwners(a.node, b.node)
	t.Logf("taken %v after the session expired", now.Sub(expires))
	right := assign([]uuid.UUID{a.Session(), b.Session()}, partitions)
	for _, s := range []*survivor{a, b} {
		s.mu.Lock()
		defer s.mu.Unlock()
		surveys := s.left(session, expires, right)
		t.Logf("after %d surveys", surveys)
		require.Positive(t, surveys)
		require.LessOrEqual(t, surveys, 3)
		require.LessOrEqual(t, s.pause, s.o.Interval)
	}
}

func TestTakeoverAfterKill(t *testing.T) {
	t.Parallel()
	takeover(t, func(*Options) {})
}

func TestTakeoverAfterKillWithDefaults(t *testing.T) {
	t.Parallel()
	takeover(t, func(o *Options) { o.TTL, o.Interval = 0, 0 })
}

func TestPartitionsMoveToAMemberThatJoins(t *testing.T) {
	t.Parallel()
	c := setup(t)
	a, b := c.start(long), c.start(long)
	c.awaitOwners(a, b)
	before := map[int16]int64{}
	s, err := c.store.Survey(t.Context())
	require.NoError(t, err)
	for _, o := range s.Ownerships {
		before[o.Partition] = o.Epoch
	}
	sessions := []uuid.UUID{a.Session(), b.Session()}
	old := assign(sessions, partitions)
	joined := c.start(long)
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
	const ttl = 12 * time.Second
	paused := c.add(func(o *Options) { o.TTL, o.OnGain, o.OnLose = ttl, nil, func(p []int16) { lost = p } })
	changed, err := paused.runOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, partitions, changed)
	old := paused.Session()

	// The trust ends before the session expires: what is left of it is read first, and then the time of the database.
	var expired time.Time
	c.scan(`SELECT expires_at FROM session WHERE id = $1`, []any{old}, &expired)
	for {
		left := paused.Left()
		var now time.Time
		c.scan(`SELECT clock_timestamp()`, nil, &now)
		if now.Add(left).Before(expired.Add(-ttl / 20)) {
			break
		}
		require.True(t, now.Before(expired), "it trusts its session for too long")
	}

	other := c.add(long)
	validAtTake := make(chan bool, partitions)
	other.onGain = func(context.Context, []job.Ownership) { validAtTake <- paused.Valid() || paused.Owns(0) }
	c.run(other)
	require.Eventually(t, func() bool { return len(other.Owned()) == partitions }, patience, often)
	require.False(t, <-validAtTake, "it no longer trusts its session when another member takes its partitions")
	require.Empty(t, paused.Owned())

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

	// The session stays alive without partitions.
	c.renewsOn(a)
	require.Equal(t, session, a.Session())
	require.Empty(t, a.Owned())
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
	n, other := c.start(long), c.start(long)
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
