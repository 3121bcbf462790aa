package engine

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	// perFree is how many times the free slots a namespace may have: less than for the gate, which divides what is left
	// for a namespace among its hosts, and defers most of what comes close to its own limit.
	perFree = 3
	// perGather is the part of the slots that a namespace near its share waits for, for up to gatherShare, because few
	// runs in one claim cost more per run.
	perGather   = 16
	gatherShare = 20 * time.Millisecond
	// A namespace that ends as many deliveries within turnover as it has slots may have all but one in perReserve, if no
	// other one used or waited for slots within aloneAfter. So may one that has just begun.
	turnover   = 500 * time.Millisecond // more than the lead, for which runs hold slots as well
	aloneAfter = 2 * time.Second
	perReserve = 64
	// shareAfterDefer is for how long a namespace has only its share after one of its runs was deferred. Most often that
	// is because the gate lets it use fewer slots, and would defer others too.
	shareAfterDefer = 24 * time.Hour
)

// slots counts the attempts that may be in flight, and those that each namespace has.
type slots struct {
	now func() time.Duration // clock.Elapsed

	mu      sync.Mutex
	size    int
	free    int
	started int
	of      map[uuid.UUID]used // those that have some, or have only their share for a while
	// asked has the last two namespaces that used or waited for slots, the last one first.
	asked [2]asked
}

// asked is when a namespace last used or waited for slots.
type asked struct {
	namespace uuid.UUID
	at        time.Duration
}

// used is the slots of a namespace.
type used struct {
	n       int           // of attempts in flight, and of runs that are being claimed
	started int           // of attempts in flight
	since   time.Duration // when it began to wait for more of its share; 0: it does not wait

	counted time.Duration // from when on ended counts
	ended   int
	slow    time.Duration // until when it has only its share
}

func newSlots(size int) slots {
	return slots{now: clock.Elapsed, size: size, free: size, of: map[uuid.UUID]used{}}
}

// acquire takes up to most slots, or none if fewer than least are free.
func (s *slots) acquire(most, least int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(most, s.free)
	if n < least {
		return 0
	}
	s.free -= n
	return n
}

// release returns slots that were acquired and not used.
func (s *slots) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
}

// start notes that an attempt of a namespace uses a slot that was acquired.
func (s *slots) start(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[namespace]
	u.started++
	s.started++
	s.set(namespace, u, 1)
	if namespace != access.CanaryNamespace { // which has one run at a time
		s.ask(namespace)
	}
}

// end returns the slot of an attempt, and notes whether the attempt was deferred.
func (s *slots) end(namespace uuid.UUID, deferred bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	u := s.of[namespace]
	u.started--
	s.started--
	if deferred {
		u.slow = s.now() + shareAfterDefer
	} else {
		u.ended++
	}
	s.set(namespace, u, -1)
}

// mayStart is how many runs of a namespace the admitters may start, which have acquired slots for them. It counts attempts in
// flight only: runs that are being claimed may need a decision as well, and the claim then starts none of them. But more
// than the usual share is only what is really free.
func (s *slots) mayStart(namespace uuid.UUID, acquired int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[namespace]
	// Each run also takes a free slot, so the namespace reaches its share after this many.
	room := (perFree*(s.size-s.started) - u.started + perFree) / (perFree + 1)
	if u.n == 0 {
		return max(room, 1)
	}
	if s.mayHaveAll(namespace, &u) {
		room = max(room, s.free+acquired-s.reserve())
	}
	s.of[namespace] = u
	if room <= 0 {
		s.ask(namespace)
	}
	return max(room, 0)
}

func (s *slots) add(namespace uuid.UUID, n int) { s.set(namespace, s.of[namespace], n) }

// set notes the slots of a namespace, of which it has n more.
func (s *slots) set(namespace uuid.UUID, u used, n int) {
	if u.n == 0 {
		u.counted, u.ended = s.now(), 0
	}
	if u.n += n; u.n == 0 && u.slow <= s.now() {
		delete(s.of, namespace)
	} else {
		s.of[namespace] = u
	}
}

// ask notes that a namespace uses a slot, or waits for one.
func (s *slots) ask(namespace uuid.UUID) {
	if s.asked[0].namespace != namespace {
		s.asked[1] = s.asked[0]
	}
	s.asked[0] = asked{namespace, s.now()}
}

// isAlone reports whether no other namespace used or waited for slots lately.
func (s *slots) isAlone(namespace uuid.UUID, now time.Duration) bool {
	last := s.asked[0]
	if last.namespace == namespace {
		last = s.asked[1]
	}
	return last.at == 0 || now-last.at >= aloneAfter
}

// mayHaveAll reports whether a namespace may have all slots but the reserve: it is alone and returns its slots soon.
func (s *slots) mayHaveAll(namespace uuid.UUID, u *used) bool {
	now := s.now()
	if now-u.counted >= turnover {
		if time.Duration(u.ended)*turnover < time.Duration(u.started)*min(now-u.counted, time.Minute) {
			u.slow = max(u.slow, now+turnover)
		}
		u.counted, u.ended = now, 0
	}
	return u.slow <= now && s.isAlone(namespace, now)
}

// reserve is how many slots a namespace that is alone leaves.
func (s *slots) reserve() int { return (s.size + perReserve - 1) / perReserve }

func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// shares divides the slots of one claim among namespaces. Its runs count as those of their namespaces until end.
type shares struct {
	slots    *slots
	acquired int // slots for the claim that are not free any more
	taken    int
	of       map[uuid.UUID]int
	refused  bool // whether a namespace was full
}

func (s *slots) shares(acquired int) *shares {
	return &shares{slots: s, acquired: acquired, of: map[uuid.UUID]int{}}
}

// Full reports whether a namespace has its share. One that has nothing may always have one, and one that returns its
// slots soon may have nearly all if it is alone.
func (c *shares) Full(namespace uuid.UUID) bool {
	s := c.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[namespace]
	if u.n == 0 {
		return false
	}
	now, free := s.now(), s.free+c.acquired-c.taken
	// Each run also takes a free slot, so the namespace reaches its share after this many.
	room := (perFree*free - u.n + perFree) / (perFree + 1)
	if s.mayHaveAll(namespace, &u) {
		room = max(room, free-s.reserve())
	}
	full := room <= 0
	if !full && room < s.size/perGather && c.of[namespace] == 0 {
		if u.since == 0 {
			u.since = now
		}
		full = now-u.since < gatherShare
	}
	s.of[namespace] = u
	if full {
		c.refused = true
		s.ask(namespace)
	}
	return full
}

// Took notes that the claim has one more run of a namespace.
func (c *shares) Took(namespace uuid.UUID) {
	s := c.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	c.taken++
	c.of[namespace]++
	u := s.of[namespace]
	u.since = 0
	s.set(namespace, u, 1)
}

// end ends the claim, once. The attempts that it starts count by themselves.
func (c *shares) end() {
	c.slots.mu.Lock()
	defer c.slots.mu.Unlock()
	for namespace, n := range c.of {
		c.slots.add(namespace, -n)
	}
	clear(c.of)
}
