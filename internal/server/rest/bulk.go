package rest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// bulkWait is how long a bulk waits for its turn. Its body has been read by then and counts as memory of its namespace.
const bulkWait = 5 * time.Second

// BulkLimiter bounds the bulks in progress on this node: a body of 16 MB needs several times its size in memory until its
// jobs are created. A namespace may have half of them, so that it cannot shut out all others.
type BulkLimiter struct {
	slots chan struct{}
	mu    sync.Mutex
	by    map[uuid.UUID]int // bulks of a namespace that wait or are in progress
}

// NewBulkLimiter allows a number of bulks at the same time.
func NewBulkLimiter(bulks int) *BulkLimiter {
	return &BulkLimiter{slots: make(chan struct{}, bulks), by: map[uuid.UUID]int{}}
}

// Enter waits for a slot.
func (l *BulkLimiter) Enter(ctx context.Context) (leave func(), err error) {
	namespace := Principal(ctx).Namespace
	if !l.count(namespace, 1) {
		return nil, NewProblem("rate_limited",
			"this namespace has too many bulks under way on this node; wait for their answers")
	}
	ctx, cancel := context.WithTimeout(ctx, bulkWait)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots; l.count(namespace, -1) }, nil
	case <-ctx.Done():
		l.count(namespace, -1)
		return nil, NewProblem("unavailable", "too many bulks are under way on this node; try again")
	}
}

// count changes the number of bulks of a namespace. It returns false, and changes nothing, if the namespace is at its
// limit.
func (l *BulkLimiter) count(namespace uuid.UUID, change int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.by[namespace] + change
	switch {
	case n > max(1, cap(l.slots)/2):
		return false
	case n == 0:
		delete(l.by, namespace)
	default:
		l.by[namespace] = n
	}
	return true
}
