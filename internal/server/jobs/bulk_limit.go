package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/server/rest"
)

// bulkWait is how long a bulk waits for its turn. Its body has been read by then and counts as memory of its namespace.
const bulkWait = 5 * time.Second

// bulkLimiter bounds the bulks in progress on this node, in all and per key: a body of 16 MB needs
// several times its size in memory until its jobs are created.
type bulkLimiter struct {
	slots  chan struct{}
	perKey int
	mu     sync.Mutex
	byKey  map[uuid.UUID]int // bulks that wait or are in progress
}

func newBulkLimiter(bulks int) *bulkLimiter {
	return &bulkLimiter{slots: make(chan struct{}, bulks), perKey: rest.PerKey(bulks), byKey: map[uuid.UUID]int{}}
}

// enter waits for a slot.
func (l *bulkLimiter) enter(ctx context.Context) (leave func(), err error) {
	key := rest.Principal(ctx).Key
	if !l.count(key, 1) {
		return nil, rest.NewProblem("rate_limited",
			"this key has too many bulks under way on this node; wait for their answers")
	}
	ctx, cancel := context.WithTimeout(ctx, bulkWait)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots; l.count(key, -1) }, nil
	case <-ctx.Done():
		l.count(key, -1)
		return nil, rest.NewProblem("unavailable", "too many bulks are under way on this node; try again")
	}
}

// count changes the number of bulks of a key. It returns false, and changes nothing, if
// the key is at its limit.
func (l *bulkLimiter) count(key uuid.UUID, change int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byKey[key] + change
	switch {
	case n > l.perKey:
		return false
	case n == 0:
		delete(l.byKey, key)
	default:
		l.byKey[key] = n
	}
	return true
}
