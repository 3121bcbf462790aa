package member

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Store is what a member needs of a shard.
type Store interface {
	// Register makes a session and returns the database's instant, as Renew does.
	Register(ctx context.Context, id uuid.UUID, name string, ttl time.Duration) (now time.Time, err error)
	// Renew fails with job.ErrSessionExpired if the session is over.
	Renew(ctx context.Context, id uuid.UUID, ttl time.Duration, owns bool) (now time.Time, err error)
	Unregister(ctx context.Context, id uuid.UUID) error
	Survey(ctx context.Context) (job.Survey, error)
	// Take returns those whose owner and epoch were still as in from, and whose owner was not alive.
	Take(ctx context.Context, me uuid.UUID, from []job.Ownership) ([]job.Ownership, error)
	Release(ctx context.Context, me uuid.UUID, from []job.Ownership) error
}

// Options of a member. Store is required.
type Options struct {
	Store    Store
	Name     string        // for people; two of one name are two members
	TTL      time.Duration // of the session; 5 s
	Interval time.Duration // between renewals; 1 s, at most a third of the TTL
	Bound    *clock.Bound  // is given the database's instant with each renewal
	Log      *slog.Logger

	// OnGain and OnLose tell of partitions, one call at a time and in order: what
	// was gained is lost before it is gained again. Owns has changed when they are
	// called. The context of OnGain ends with the session and when the member
	// drains; OnLose waits for it to return. Neither may call Drain or Close.
	OnGain func(context.Context, []job.Ownership)
	OnLose func([]int16)
}

// Member is this process in a shard. Safe for concurrent use.
type Member struct {
	o       Options
	trust   time.Duration // in a session, since the request that renewed it was sent
	attempt time.Duration // for one request: three fit into trust

	held  atomic.Pointer[holding]
	mu    sync.Mutex // to change held
	calls sync.Mutex // held while OnGain or OnLose runs

	renewing  sync.Mutex
	last      uuid.UUID     // the session last made, guarded by renewing
	doubtful  bool          // whether last was made is not known
	assigning chan struct{} // a lock that can be waited for with a context
	rounds    rounds        // guarded by assigning
	next      atomic.Int64  // when assign looks again: clock.Elapsed
	kick      chan struct{} // assign now

	intake  context.Context // ends when the member drains
	drain   context.CancelFunc
	open    context.Context // ends when the member closes
	close   context.CancelFunc
	started atomic.Bool
	stopped chan struct{} // Run has returned
}

// lease is the trust in one session.
type lease struct {
	session uuid.UUID
	until   atomic.Int64 // clock.Elapsed
	ctx     context.Context
	end     context.CancelFunc
}

func (l *lease) valid() bool { return l != nil && l.left() > 0 }

func (l *lease) left() time.Duration { return time.Duration(l.until.Load()) - clock.Elapsed() }

// holding is a session and the partitions that it owns. It is never changed, so
// that one load sees what belongs together.
type holding struct {
	lease  *lease // nil: no session
	epochs map[int16]int64
}

// New makes a member, which is in no session until it runs.
func New(o Options) (*Member, error) {
	if o.TTL == 0 {
		o.TTL = 5 * time.Second
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Bound == nil {
		o.Bound = &clock.Bound{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Store == nil:
		return nil, errors.New("member: a store is required")
	case o.Interval <= 0 || o.TTL < 3*o.Interval:
		return nil, errors.New("member: the interval must be at most a third of the TTL")
	}
	m := &Member{
		o: o, trust: o.TTL - o.TTL/10, assigning: make(chan struct{}, 1),
		kick: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	m.attempt = m.trust / 3
	m.intake, m.drain = context.WithCancel(context.Background())
	m.open, m.close = context.WithCancel(context.Background())
	m.held.Store(&holding{})
	return m, nil
}

// Session is the id of the session; uuid.Nil: there is none.
func (m *Member) Session() uuid.UUID {
	if l := m.held.Load().lease; l != nil {
		return l.session
	}
	return uuid.Nil
}

// Valid says whether the session is surely alive.
func (m *Member) Valid() bool { return m.held.Load().lease.valid() }

// Left is how long the session is surely alive, if it is not renewed; 0: it is not.
func (m *Member) Left() time.Duration {
	if l := m.held.Load().lease; l.valid() {
		return max(l.left(), 0)
	}
	return 0
}

// Owns says whether a partition is this session's, and the session alive.
func (m *Member) Owns(partition int16) bool {
	h := m.held.Load()
	_, ok := h.epochs[partition]
	return ok && h.lease.valid()
}

// Owned lists the partitions that Owns is true of, in order.
func (m *Member) Owned() []int16 {
	h := m.held.Load()
	if !h.lease.valid() {
		return nil
	}
	return slices.Sorted(maps.Keys(h.epochs))
}

func (m *Member) draining() bool { return m.intake.Err() != nil }
