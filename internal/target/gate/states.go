package gate

import (
	"container/list"
	"time"

	"github.com/google/uuid"
)

// Limits of what the gate remembers.
const (
	maxStates = 10_000
	idleTTL   = 15 * time.Minute // how long an unused state is kept; longer than any cooldown
)

// states are the destinations the gate remembers: all that are in use, and the most recently used of
// the others, maxStates together. Finding and forgetting one takes constant time.
type states struct {
	byDestination map[Destination]*state
	namespaces    map[uuid.UUID]*namespace // of those destinations
	// idle and open are the unused states with a closed and with an open breaker, least recently used
	// first. Each may have half of maxStates, so a flood of new destinations closes no breaker, and many
	// open breakers leave capacity for other destinations.
	idle, open list.List
}

// acquire finds or creates the state of a destination and marks it as in use until release.
func (l *states) acquire(to Destination, now time.Duration) *state {
	s := l.byDestination[to]
	if s != nil {
		l.unlist(s)
		return s
	}
	l.trim(now, maxStates-1)
	ns := l.namespaces[to.Namespace]
	if ns == nil {
		ns = &namespace{flow: flow{lastProgress: now}}
		l.namespaces[to.Namespace] = ns
	}
	ns.states++
	s = &state{destination: to, namespace: ns, flow: flow{lastProgress: now}}
	l.byDestination[to] = s
	return s
}

// unlist removes a state from the list of unused states that it is in.
func (*states) unlist(s *state) {
	if s.list != nil {
		s.list.Remove(s.element)
		s.list, s.element = nil, nil
	}
}

// release adds a state to the unused ones, unless a delivery still uses it.
func (l *states) release(s *state, now time.Duration) {
	if s.inFlight > 0 || len(s.waiters) > 0 {
		return
	}
	l.unlist(s)
	s.lastUsed, s.list = now, &l.idle
	if s.isOpen() {
		s.list = &l.open
	}
	s.element = s.list.PushBack(s)
	l.trim(now, maxStates)
}

// trim forgets states that were not used for idleTTL, then the least recently used until at most limit
// are left.
func (l *states) trim(now time.Duration, limit int) {
	for _, unused := range []*list.List{&l.idle, &l.open} {
		for e := unused.Front(); e != nil && now-stateOf(e).lastUsed >= idleTTL; e = unused.Front() {
			l.forget(stateOf(e))
		}
	}
	for len(l.byDestination) > limit {
		from := &l.idle
		if from.Len() == 0 || l.open.Len() > maxStates/2 {
			from = &l.open
		}
		if from.Len() == 0 {
			return // all are in use
		}
		l.forget(stateOf(from.Front()))
	}
}

func (l *states) forget(s *state) {
	l.unlist(s)
	delete(l.byDestination, s.destination)
	if s.namespace.states--; s.namespace.states == 0 {
		delete(l.namespaces, s.destination.Namespace)
	}
}

func stateOf(e *list.Element) *state {
	return e.Value.(*state) //nolint:forcetypeassert // the lists contain nothing else
}
