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

// Store is the database as a member uses it.
type Store interface {
	// Register creates a session. Register and Renew return the time of the database clock.
	Register(ctx context.Context, id uuid.UUID, name string, ttl time.Duration) (now clock.Sample, err error)
	// Renew extends a session, even if it has expired. It fails with job.ErrSessionExpired if another node has
	// ended the session.
	Renew(ctx context.Context, id uuid.UUID, ttl time.Duration, owns bool) (now clock.Sample, err error)
	Unregister(ctx context.Context, id uuid.UUID) error // also if it is not registered yet
	Survey(ctx context.Context) (job.Survey, error)
	// Take takes partitions whose owner and epoch are still those in from and whose owner is not alive.
	// It returns what it took.
	Take(ctx context.Context, me uuid.UUID, from []job.Ownership) ([]job.Ownership, error)
	Release(ctx context.Context, me uuid.UUID, from []job.Ownership) error
}

// Clock records in the database that this node trusts its clock.
type Clock interface {
	TrustClock(ctx context.Context, s clock.Sample) error
}

// Options of a member. Store is required.
type Options struct {
	Store    Store
	Clock    Clock         // nil: what this node trusts is not recorded
	Name     string        // for people; members may share a name
	Process  job.Process   // of this process; each session belongs to it
	TTL      time.Duration // of the session; 5 s
	Interval time.Duration // between renewals; 1 s, which is also the most, and at most a third of the TTL
	Bound    *clock.Bound  // receives the time of the database clock with each renewal
	Log      *slog.Logger
	OnRound  func(loop string) // called after each round of a loop; may be nil

	// OnGain and OnLose report changes of ownership, one call at a time and in order: a partition is lost
	// before it is gained again. Owns has changed when they are called. The context of OnGain ends with
	// the session and when the member drains; OnLose waits for OnGain to return. Neither may call Drain
	// or Close.
	OnGain func(context.Context, []job.Ownership)
	OnLose func([]int16)
}

// Member is this process in its cluster. Safe for concurrent use.
type Member struct {
	o       Options
	trust   time.Duration // how long a session is trusted after the request that renewed it was sent
	attempt time.Duration // limit of one request: three fit into trust

	current atomic.Pointer[snapshot]
	mu      sync.Mutex // locked to change current
	calls   sync.Mutex // locked while OnGain or OnLose runs

	renewing   sync.Mutex
	last       uuid.UUID // the session registered last; guarded by renewing
	unresolved bool      // it is unknown whether last was registered; guarded by renewing
	inDoubt    bool      // the database clock is; guarded by renewing

	assigning  chan struct{} // a lock that can be waited for with a context
	rounds     rounds        // guarded by assigning
	nextAssign atomic.Int64  // when to assign again: clock.Elapsed
	wakeAssign chan struct{}

	intake  context.Context // ends when the member drains
	drain   context.CancelFunc
	open    context.Context // ends when the member closes
	close   context.CancelFunc
	started atomic.Bool
	stopped chan struct{} // Run has returned
}

// lease is how long one session is trusted. A session that is revived gets another lease.
type lease struct {
	session uuid.UUID
	until   atomic.Int64    // clock.Elapsed
	ctx     context.Context // done: the trust has ended
	end     context.CancelFunc
}

func (l *lease) valid() bool { return l != nil && l.left() > 0 }

func (l *lease) left() time.Duration { return time.Duration(l.until.Load()) - clock.Elapsed() }

// snapshot is a session and the partitions that it owns, with their epochs. It is never changed, so one
// load sees what belongs together.
type snapshot struct {
	lease  *lease // nil: no session
	epochs map[int16]int64
}

// New creates a member. It has no session until it runs.
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
	if o.Process == (job.Process{}) {
		o.Process = job.NewProcess()
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
		wakeAssign: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	m.attempt = m.trust / 3
	m.intake, m.drain = context.WithCancel(context.Background())
	m.open, m.close = context.WithCancel(context.Background())
	m.current.Store(&snapshot{})
	return m, nil
}

// Session returns the id of the session, even if it is not certainly alive; uuid.Nil: there is none.
func (m *Member) Session() uuid.UUID {
	if l := m.current.Load().lease; l != nil {
		return l.session
	}
	return uuid.Nil
}

// Valid returns whether the session is certainly alive.
func (m *Member) Valid() bool { return m.current.Load().lease.valid() }

// Left returns how long the session is certainly alive without another renewal; 0: it may be dead.
func (m *Member) Left() time.Duration {
	if l := m.current.Load().lease; l.valid() {
		return max(l.left(), 0)
	}
	return 0
}

// Owns returns whether the session is alive and owns a partition.
func (m *Member) Owns(partition int16) bool {
	h := m.current.Load()
	_, ok := h.epochs[partition]
	return ok && h.lease.valid()
}

// Owned returns the partitions that Owns returns true for, in order.
func (m *Member) Owned() []int16 {
	h := m.current.Load()
	if !h.lease.valid() {
		return nil
	}
	return slices.Sorted(maps.Keys(h.epochs))
}

func (m *Member) draining() bool { return m.intake.Err() != nil }
