package engine

import "sync"

// slots counts the attempts that may be in flight.
type slots struct {
	mu   sync.Mutex
	free int
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

func (s *slots) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
}

func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
