package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

// readLimit is the maximum duration of a read, which no client can cancel.
const readLimit = 5 * time.Second

// snapshot shares the result of a read among requests, for snapshotAge. A failure is not shared.
type snapshot[T any] struct {
	read func(context.Context) (T, error)

	mu    sync.Mutex
	taken time.Duration // by clock.Elapsed; 0: never
	value T
}

// get returns the last result if it is not older than snapshotAge, or reads again. Requests that arrive during a read
// wait for it.
func (s *snapshot[T]) get(ctx context.Context) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken > 0 && clock.Elapsed()-s.taken < snapshotAge {
		return s.value, nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	began := clock.Elapsed()
	value, err := s.read(limited)
	if err != nil {
		return value, err
	}
	s.value, s.taken = value, began
	return value, nil
}
