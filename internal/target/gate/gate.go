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
	"github.com/belfry-dev/belfry/internal/target/message"
)

// Settings of the gate.
const (
	freeFactor = 2                     // a destination may use this many times the free slots
	nsFactor   = 4                     // and all destinations of a namespace together this many times
	roomFactor = 3                     // a destination may use this many times what its namespace has left
	reserve    = 10                    // one in this many slots is never used for waiting
	maxWait    = 50 * time.Millisecond // how long a delivery may wait in its slot
	minDelay   = 250 * time.Millisecond
	maxDelay   = 2 * time.Minute
	batch      = 200 * time.Millisecond // deferrals that end within it end together: one claim for many runs
	maxShown   = 200                    // bytes of a host in messages
)

// Options of a Gate.
type Options struct {
	Slots   int // slots of the node; 0: PerHost is the only limit
	PerHost int // maximum number of deliveries in flight per destination; 0: Slots is the only limit
	Shared  int // maximum number of deliveries in flight, which namespaces share; 0: no such limit
}

// Destination is a host as one namespace uses it.
type Destination struct {
	Namespace uuid.UUID
	Host      string // appears in messages
}

// Gate limits the deliveries in flight to each destination and of each namespace. Safe for concurrent use.
type Gate struct {
	opts Options
	now  func() time.Duration

	mu     sync.Mutex
	inUse  int // slots with a delivery in flight, or with one that waits for capacity
	all    flow
	states states
	// waiting is the destinations with waiters, if namespaces share a limit: what one returns may be for another.
	waiting map[*state]struct{}
}

// flow is the deliveries to one destination, of one namespace, or all. Gate.mu guards it.
type flow struct {
	inFlight     int
	average      time.Duration // moving average of how long a delivery takes
	lastProgress time.Duration // when a delivery last ended, or started with none in flight
	nextReturn   time.Duration // when the most recently deferred delivery returns
}

// state is what the gate knows about one destination. Gate.mu guards it.
type state struct {
	flow
	breaker
	destination Destination
	namespace   *namespace
	waiters     []chan struct{} // deliveries that wait in their slots; closed when one gets capacity

	list     *list.List // the list of unused states that it is in; nil: it is in use
	element  *list.Element
	lastUsed time.Duration
}

// namespace is all deliveries of one namespace.
type namespace struct {
	flow
	states int // how many refer to it
}

// New creates a Gate.
func New(o Options) *Gate {
	return &Gate{opts: o, now: clock.Elapsed, waiting: map[*state]struct{}{}, states: states{
		byDestination: map[Destination]*state{}, namespaces: map[uuid.UUID]*namespace{},
	}}
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
	if full := g.full(s); full != nil {
		if !g.mayWait(s, full) || !g.wait(ctx, s) {
			return nil, g.deferFull(s, full)
		}
	} else {
		g.inUse++
		g.start(s)
	}
	// From here on the delivery counts as in flight.
	now := g.now()
	ok, again := s.allow(now)
	if !ok {
		g.leave(s)
		return nil, g.deferOpen(s, again)
	}
	return &Pass{gate: g, state: s, entered: now, probe: s.probing && s.isOpen()}, nil
}

// Leave reports the result of the delivery and frees its capacity.
func (p *Pass) Leave(r Result) {
	g, s := p.gate, p.state
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s.ended(now, now-p.entered)
	s.namespace.ended(now, now-p.entered)
	g.all.ended(now, now-p.entered)
	s.record(now, r, p.probe)
	g.leave(s)
	g.states.release(s, now)
}

// start counts a delivery as in flight. Its slot counts as in use already.
func (g *Gate) start(s *state) {
	now := g.now()
	s.started(now)
	s.namespace.started(now)
	g.all.started(now)
}

// leave frees the capacity of one delivery and hands it to the first waiter. If namespaces share a limit, that is one of
// the namespace with the fewest deliveries in flight.
func (g *Gate) leave(s *state) {
	s.inFlight--
	s.namespace.inFlight--
	g.all.inFlight--
	g.inUse--
	if g.opts.Shared > 0 {
		s = g.nextWaiting()
	}
	if s != nil && len(s.waiters) > 0 && g.full(s) == nil {
		first := s.waiters[0]
		g.setWaiters(s, s.waiters[1:])
		g.start(s)
		close(first)
	}
}

func (g *Gate) nextWaiting() (next *state) {
	for s := range g.waiting {
		if next == nil || s.namespace.inFlight < next.namespace.inFlight {
			next = s
		}
	}
	return next
}

func (g *Gate) setWaiters(s *state, waiters []chan struct{}) {
	s.waiters = waiters
	switch {
	case g.opts.Shared == 0:
	case len(waiters) > 0:
		g.waiting[s] = struct{}{}
	default:
		delete(g.waiting, s)
	}
}

// Full reports whether as many deliveries are in flight as the namespaces share.
func (g *Gate) Full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all.inFlight >= g.opts.Shared
}

// full returns what has no capacity for one more delivery to a destination: the destination, its namespace, all, or nil.
func (g *Gate) full(s *state) *flow {
	if g.opts.Shared > 0 {
		left, has := g.opts.Shared-g.all.inFlight-1, s.namespace.inFlight
		switch {
		case left < 0:
			return &g.all
		case has > 0 && has+1 > nsFactor*left:
			return &s.namespace.flow
		}
	}
	if g.opts.PerHost > 0 && s.inFlight >= g.opts.PerHost {
		return &s.flow
	}
	if g.opts.Slots <= 0 {
		return nil
	}
	free := g.opts.Slots - g.inUse
	// Each delivery of a namespace also takes a free slot, so it reaches its limit after this many.
	room := (nsFactor*free - s.namespace.inFlight + nsFactor) / (nsFactor + 1)
	switch {
	case s.namespace.inFlight > 0 && room <= 0:
		return &s.namespace.flow
	case s.inFlight > 0 && s.inFlight >= min(freeFactor*free, roomFactor*room):
		return &s.flow
	}
	return nil
}

// mayWait reports whether a delivery may wait in its slot: another one to its destination must be in flight, because
// it hands on its capacity, the wait must be short, and the reserved slots are not for waiting. If namespaces share a
// limit, any delivery hands on its capacity.
func (g *Gate) mayWait(s *state, full *flow) bool {
	now, n := g.now(), len(s.waiters)+1
	if g.opts.Shared > 0 {
		return g.all.expectedWait(now, g.inUse-g.all.inFlight+1) < maxWait
	}
	return s.inFlight > 0 && max(s.expectedWait(now, n), full.expectedWait(now, n)) < maxWait &&
		(g.opts.Slots <= 0 || g.inUse < g.opts.Slots-g.opts.Slots/reserve)
}

func (f *flow) started(now time.Duration) {
	f.inFlight++
	if f.inFlight == 1 {
		f.lastProgress = now
	}
}

func (f *flow) ended(now, took time.Duration) {
	f.average += (took - f.average) / 4
	f.lastProgress = now
}

// expectedWait estimates how long the last of n waiters would wait, from the average duration of a delivery.
// If no delivery has ended for longer than that, it expects the same time again.
func (f *flow) expectedWait(now time.Duration, n int) time.Duration {
	return max(f.average/time.Duration(max(1, f.inFlight))*time.Duration(n), now-f.lastProgress)
}

// pace estimates how long a destination or namespace at its limit takes until it has capacity for one more. While
// no delivery ends, deliveries take at least as long as the time since the last progress.
func (f *flow) pace(now time.Duration) time.Duration {
	return max(f.average, now-f.lastProgress) / time.Duration(max(1, f.inFlight))
}

// wait queues for capacity, with the lock released meanwhile, and reports whether there is some.
func (g *Gate) wait(ctx context.Context, s *state) bool {
	granted := make(chan struct{})
	g.setWaiters(s, append(s.waiters, granted))
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
		g.setWaiters(s, slices.Delete(s.waiters, i, i+1))
	}
	g.inUse--
	return false
}

// deferFull defers a delivery because its destination or its namespace has no capacity.
func (g *Gate) deferFull(s *state, full *flow) *job.Outcome {
	who := s.shown()
	if full == &s.namespace.flow {
		who = "the namespace"
	}
	now := g.now()
	line, pace := full, full.pace(now)
	if g.opts.Shared > 0 { // any delivery that ends helps, and no namespace waits behind what others have deferred
		line, pace = &s.namespace.flow, g.all.pace(now)
	}
	return &job.Outcome{
		Kind: job.Deferred, RetryAfter: line.delay(now, now, pace),
		Message: fmt.Sprintf("%s has %d deliveries in flight from this node, its current limit; waiting for capacity",
			who, full.inFlight),
	}
}

// deferOpen defers a delivery because the breaker is open.
func (g *Gate) deferOpen(s *state, again time.Duration) *job.Outcome {
	return &job.Outcome{
		Kind: job.Deferred, RetryAfter: s.delay(g.now(), again, s.cooldown/50),
		Message: fmt.Sprintf("nearly all recent deliveries to %s failed, so its circuit breaker is open for %s; "+
			"then one delivery probes it", s.shown(), s.cooldown),
	}
}

// shown is the destination in messages. Brokers may have many servers.
func (s *state) shown() string { return message.Clean(s.destination.Host, maxShown) }

// delay returns how long a delivery is deferred, at least until from. Deliveries return one after the
// other, each a step later. Those that would return later than maxDelay return at a random time in its
// second half instead.
func (f *flow) delay(now, from, step time.Duration) time.Duration {
	f.nextReturn = max(f.nextReturn, from, now+minDelay) + step
	at := f.nextReturn
	if at > now+maxDelay {
		f.nextReturn = now + maxDelay
		at = now + maxDelay/2 + rand.N(maxDelay/2) //nolint:gosec // to spread them
	}
	return at.Truncate(batch) + batch - now
}
