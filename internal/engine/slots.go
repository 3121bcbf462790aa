package engine

import (
	"sync"
	"time"

	"github.com/google/uuid"

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
)

// slots counts the attempts that may be in flight, and those that each namespace has.
type slots struct {
	mu   sync.Mutex
	size int
	free int
	of   map[uuid.UUID]used
}

// used is the slots of a namespace.
type used struct {
	n     int           // of attempts in flight, and of runs that are being claimed
	since time.Duration // when it began to wait for more of its share, by clock.Elapsed; 0: it does not wait
}

func newSlots(size int) slots { return slots{size: size, free: size, of: map[uuid.UUID]used{}} }

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
	s.add(namespace, 1)
}

// end returns the slot of an attempt.
func (s *slots) end(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	s.add(namespace, -1)
}

func (s *slots) add(namespace uuid.UUID, n int) {
	u := s.of[namespace]
	if u.n += n; u.n == 0 {
		delete(s.of, namespace)
	} else {
		s.of[namespace] = u
	}
}

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

// Full reports whether a namespace has its share. One that has nothing may always have one.
func (c *shares) Full(namespace uuid.UUID) bool {
	s := c.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[namespace]
	if u.n == 0 {
		return false
	}
	// Each run also takes a free slot, so the namespace reaches its share after this many.
	room := (perFree*(s.free+c.acquired-c.taken) - u.n + perFree) / (perFree + 1)
	full := room <= 0
	if !full && room < s.size/perGather && c.of[namespace] == 0 {
		now := clock.Elapsed()
		if u.since == 0 {
			u.since = now
			s.of[namespace] = u
		}
		full = now-u.since < gatherShare
	}
	c.refused = c.refused || full
	return full
}

// Took notes that the claim has one more run of a namespace.
func (c *shares) Took(namespace uuid.UUID) {
	s := c.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	c.taken++
	c.of[namespace]++
	s.of[namespace] = used{n: s.of[namespace].n + 1}
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
