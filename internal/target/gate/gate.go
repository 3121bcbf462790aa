package gate

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// The gate's measures.
const (
	share    = 2                     // of the free slots that a place may have
	moment   = 50 * time.Millisecond // so long a delivery waits in its slot
	minDelay = 250 * time.Millisecond
	reserve  = 10 // of slots, one part that nobody waits in
	maxDelay = 2 * time.Minute
	together = 200 * time.Millisecond // those that are to come back within it come together: one claim for many
)

// Options of a Gate.
type Options struct {
	Slots    int // of the node; 0: no limit but PerPlace
	PerPlace int // deliveries under way at once, at most; 0: what the slots allow
}

// Place is a host, to one namespace.
type Place struct {
	Namespace uuid.UUID
	Host      string // as messages name it
}

// Gate counts what is under way to each place. Safe for concurrent use.
type Gate struct {
	opts Options
	now  func() time.Duration

	mu     sync.Mutex
	all    int // under way or waiting in a slot
	places places
}

// place is what is known about one; its gate's lock guards it.
type place struct {
	breaker
	name     Place
	underWay int
	line     []chan struct{} // who waits in a slot
	took     time.Duration   // a delivery, of late
	moved    time.Duration   // when one last entered an empty place, or left
	next     time.Duration   // when the next one that is deferred is to come back

	in      *list.List // nil: it is busy
	element *list.Element
	used    time.Duration // when it last was
}

// New makes a Gate.
func New(o Options) *Gate {
	return &Gate{opts: o, now: clock.Elapsed, places: places{by: map[Place]*place{}}}
}

// Pass is a delivery's way through the gate.
type Pass struct {
	gate    *Gate
	place   *place
	entered time.Duration
	trying  bool
}

// Enter lets a delivery through, or says why and for how long it is deferred.
// Leave must be called for each pass.
func (g *Gate) Enter(ctx context.Context, to Place) (*Pass, *job.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.places.find(to, g.now())
	defer func() { g.places.settle(p, g.now()) }()
	if !g.room(p) {
		if !g.mayWait(p) || !g.await(ctx, p) {
			return nil, g.full(p, to)
		}
	} else {
		p.underWay++
		g.all++
	}
	// From here on it has its place.
	now := g.now()
	ok, again := p.allow(now)
	if !ok {
		g.leave(p)
		return nil, g.resting(p, to, again)
	}
	if p.underWay == 1 {
		p.moved = now
	}
	return &Pass{gate: g, place: p, entered: now, trying: p.trying && p.rest != 0}, nil
}

// Leave ends a pass.
func (s *Pass) Leave(r Result) {
	g := s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s.place.took += (now - s.entered - s.place.took) / 4
	s.place.moved = now
	s.place.record(now, r, s.trying)
	g.leave(s.place)
	g.places.settle(s.place, now)
}

// leave gives the place of one to the first in line.
func (g *Gate) leave(p *place) {
	p.underWay--
	g.all--
	if len(p.line) > 0 && g.room(p) {
		first := p.line[0]
		p.line = p.line[1:]
		p.underWay++ // g.all counts it already
		close(first)
	}
}

// room says whether a place may have one more.
func (g *Gate) room(p *place) bool {
	if g.opts.PerPlace > 0 && p.underWay >= g.opts.PerPlace {
		return false
	}
	return g.opts.Slots <= 0 || p.underWay < max(1, share*(g.opts.Slots-g.all))
}

// mayWait says whether one may wait in its slot: for a moment, and not in the last
// slots that are left.
func (g *Gate) mayWait(p *place) bool {
	return g.expected(p) < moment && (g.opts.Slots <= 0 || g.all < g.opts.Slots-g.opts.Slots/reserve)
}

// expected is how long the next in line would wait: as the place works off what it
// has; or, if nobody has left for a while, as long again.
func (g *Gate) expected(p *place) time.Duration {
	return max(p.took/time.Duration(max(1, p.underWay))*time.Duration(len(p.line)+1), g.now()-p.moved)
}

// pace is after how long a full place has room for one more. While nobody leaves,
// what is under way takes at least as long as they have been there.
func (g *Gate) pace(p *place) time.Duration {
	return max(p.took, g.now()-p.moved) / time.Duration(max(1, p.underWay))
}

// await waits in line, without the lock, and says whether there is room now.
func (g *Gate) await(ctx context.Context, p *place) bool {
	mine := make(chan struct{})
	p.line = append(p.line, mine)
	g.all++
	g.mu.Unlock()
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-mine:
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-mine:
		return true
	default:
	}
	for i, other := range p.line {
		if other == mine {
			p.line = append(p.line[:i:i], p.line[i+1:]...)
			break
		}
	}
	g.all--
	return false
}

func (g *Gate) full(p *place, to Place) *job.Outcome {
	limit := p.underWay
	return &job.Outcome{
		Kind: job.Deferred, RetryAfter: g.delay(p, g.now(), g.pace(p)),
		Message: fmt.Sprintf("%s has %d deliveries under way from this node, which is all that it may have now; it waits for a place", to.Host, limit),
	}
}

func (g *Gate) resting(p *place, to Place, again time.Duration) *job.Outcome {
	return &job.Outcome{
		Kind: job.Deferred, RetryAfter: g.delay(p, again, p.rest/50),
		Message: fmt.Sprintf("nearly all of the last deliveries to %s failed, so that it is given a rest of %s before one of them tries again", to.Host, p.rest),
	}
}

// delay is when one that is deferred is to come back, not before from: one after
// the other, each a step later. Those that would come too late come at any
// time within the second half of maxDelay.
func (g *Gate) delay(p *place, from, step time.Duration) time.Duration {
	now := g.now()
	p.next = max(p.next, from, now+minDelay) + step
	at := p.next
	if at > now+maxDelay {
		p.next = now + maxDelay
		at = now + maxDelay/2 + rand.N(maxDelay/2) //nolint:gosec // to spread them
	}
	return at.Truncate(together) + together - now
}
