package gate

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Settings of the gate.
const (
	freeFactor = 2                     // a destination may use this many times the free slots
	reserve    = 10                    // one in this many slots is never used for waiting
	maxWait    = 50 * time.Millisecond // how long a delivery may wait in its slot
	minDelay   = 250 * time.Millisecond
	maxDelay   = 2 * time.Minute
	batch      = 200 * time.Millisecond // deferrals that end within it end together: one claim for many runs
)

// Options of a Gate.
type Options struct {
	Slots   int // slots of the node; 0: PerHost is the only limit
	PerHost int // maximum number of deliveries in flight per destination; 0: Slots is the only limit
}

// Destination is a host as one namespace uses it.
type Destination struct {
	Namespace uuid.UUID
	Host      string // appears in messages
}

// Gate limits the deliveries in flight to each destination. Safe for concurrent use.
type Gate struct {
	opts Options
	now  func() time.Duration

	mu     sync.Mutex
	inUse  int // slots with a delivery in flight, or with one that waits for capacity
	states states
}

// state is what the gate knows about one destination. Gate.mu guards it.
type state struct {
	breaker
	destination  Destination
	inFlight     int
	waiters      []chan struct{} // deliveries that wait in their slots; closed when one gets capacity
	average      time.Duration   // moving average of how long a delivery takes
	lastProgress time.Duration   // when a delivery last ended, or started with none in flight
	nextReturn   time.Duration   // when the most recently deferred delivery returns

	list     *list.List // the list of unused states that it is in; nil: it is in use
	element  *list.Element
	lastUsed time.Duration
}

// New creates a Gate.
func New(o Options) *Gate {
	return &Gate{opts: o, now: clock.Elapsed, states: states{byDestination: map[Destination]*state{}}}
}

// Pass permits one delivery.
type Pass struct {
	gate    *Gate
	state   *state
	entered time.Duration
	probe   bool
}

// Enter returns a pass for one delivery, or an outcome that says why and for how long it is deferred.
// The caller must call Leave on every pass.
func (g *Gate) Enter(ctx context.Context, to Destination) (*Pass, *job.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.states.acquire(to, g.now())
	defer func() { g.states.release(s, g.now()) }()
	if !g.hasCapacity(s) {
		if !g.mayWait(s) || !g.wait(ctx, s) {
			return nil, g.deferFull(s)
		}
	} else {
		s.inFlight++
		g.inUse++
	}
	// From here on the delivery counts as in flight.
	now := g.now()
	ok, again := s.allow(now)
	if !ok {
		g.leave(s)
		return nil, g.deferOpen(s, again)
	}
	if s.inFlight == 1 {
		s.lastProgress = now
	}
	return &Pass{gate: g, state: s, entered: now, probe: s.probing && s.isOpen()}, nil
}

// Leave reports the result of the delivery and frees its capacity.
func (p *Pass) Leave(r Result) {
	g, s := p.gate, p.state
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s.average += (now - p.entered - s.average) / 4
	s.lastProgress = now
	s.record(now, r, p.probe)
	g.leave(s)
	g.states.release(s, now)
}

// leave frees the capacity of one delivery and hands it to the first waiter.
func (g *Gate) leave(s *state) {
	s.inFlight--
	g.inUse--
	if len(s.waiters) > 0 && g.hasCapacity(s) {
		first := s.waiters[0]
		s.waiters = s.waiters[1:]
		s.inFlight++ // inUse counts it already
		close(first)
	}
}

// hasCapacity reports whether a destination may have one more delivery in flight.
func (g *Gate) hasCapacity(s *state) bool {
	if g.opts.PerHost > 0 && s.inFlight >= g.opts.PerHost {
		return false
	}
	return g.opts.Slots <= 0 || s.inFlight < max(1, freeFactor*(g.opts.Slots-g.inUse))
}

// mayWait reports whether a delivery may wait in its slot: the wait must be short, and the reserved
// slots are not for waiting.
func (g *Gate) mayWait(s *state) bool {
	return g.expectedWait(s) < maxWait && (g.opts.Slots <= 0 || g.inUse < g.opts.Slots-g.opts.Slots/reserve)
}

// expectedWait estimates how long one more waiter would wait, from the average duration of a delivery.
// If no delivery has ended for longer than that, it expects the same time again.
func (g *Gate) expectedWait(s *state) time.Duration {
	return max(s.average/time.Duration(max(1, s.inFlight))*time.Duration(len(s.waiters)+1), g.now()-s.lastProgress)
}

// pace estimates how long a destination at its limit takes until it has capacity for one more. While
// no delivery ends, deliveries take at least as long as the time since the last progress.
func (g *Gate) pace(s *state) time.Duration {
	return max(s.average, g.now()-s.lastProgress) / time.Duration(max(1, s.inFlight))
}

// wait queues for capacity, with the lock released meanwhile, and reports whether there is some.
func (g *Gate) wait(ctx context.Context, s *state) bool {
	granted := make(chan struct{})
	s.waiters = append(s.waiters, granted)
	g.inUse++
	g.mu.Unlock()
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-granted:
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-granted:
		return true
	default:
	}
	if i := slices.Index(s.waiters, granted); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
	}
	g.inUse--
	return false
}

// deferFull defers a delivery because its destination has no capacity.
func (g *Gate) deferFull(s *state) *job.Outcome {
	return &job.Outcome{
		Kind: job.Deferred, RetryAfter: g.delay(s, g.now(), g.pace(s)),
		Message: fmt.Sprintf("%s has %d deliveries in flight from this node, its current limit; waiting for capacity",
			s.destination.Host, s.inFlight),
	}
}

// deferOpen defers a delivery because the breaker is open.
func (g *Gate) deferOpen(s *state, again time.Duration) *job.Outcome {
	return &job.Outcome{
		Kind: job.Deferred, RetryAfter: g.delay(s, again, s.cooldown/50),
		Message: fmt.Sprintf("nearly all recent deliveries to %s failed, so its circuit breaker is open for %s; "+
			"then one delivery probes it", s.destination.Host, s.cooldown),
	}
}

// delay returns how long a delivery is deferred, at least until from. Deliveries return one after the
// other, each a step later. Those that would return later than maxDelay return at a random time in its
// second half instead.
func (g *Gate) delay(s *state, from, step time.Duration) time.Duration {
	now := g.now()
	s.nextReturn = max(s.nextReturn, from, now+minDelay) + step
	at := s.nextReturn
	if at > now+maxDelay {
		s.nextReturn = now + maxDelay
		at = now + maxDelay/2 + rand.N(maxDelay/2) //nolint:gosec // to spread them
	}
	return at.Truncate(batch) + batch - now
}
