package pull

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

// slots limits the database calls of one kind that are under way, because they use the connections of the engine. A
// namespace has or waits for three quarters of them only, so that others wait for at most these few.
type slots struct {
	all  chan struct{}
	most int // of one namespace

	mu sync.Mutex
	of map[uuid.UUID]chan struct{} // by namespace
}

func newSlots(all int) *slots {
	return &slots{all: make(chan struct{}, all), most: max(all*3/4, 1), of: map[uuid.UUID]chan struct{}{}}
}

// take waits for a slot for a namespace, and returns how to release it.
func (s *slots) take(ctx context.Context, namespace uuid.UUID) (release func(), err error) {
	s.mu.Lock()
	own := s.of[namespace]
	if own == nil {
		own = make(chan struct{}, s.most)
		s.of[namespace] = own
	}
	s.mu.Unlock()
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other calls of the namespace's workers: %w", ctx.Err())
	}
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		<-own
		return nil, fmt.Errorf("wait for calls of workers of other namespaces: %w", ctx.Err())
	}
	return func() { <-s.all; <-own }, nil
}
