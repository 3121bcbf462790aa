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
	n    int
	last time.Duration // when it started an attempt, by clock.Elapsed
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
	s.of[namespace] = used{s.of[namespace].n + 1, clock.Elapsed()}
}

// end returns the slot of an attempt.
func (s *slots) end(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	u := s.of[namespace]
	if u.n--; u.n == 0 {
		delete(s.of, namespace)
	} else {
		s.of[namespace] = u
	}
}

// capacity is how many of the slots that were acquired, and are about to be used, a namespace may have.
func (s *slots) capacity(namespace uuid.UUID, acquired int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[namespace]
	// Each attempt also takes a free slot, so the namespace reaches its limit after this many.
	n := (perFree*(s.free+acquired) - u.n + perFree) / (perFree + 1)
	switch {
	case u.n == 0:
		return max(n, 1)
	case n < s.size/perGather && clock.Elapsed()-u.last < gatherShare:
		return 0
	}
	return n
}

func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
