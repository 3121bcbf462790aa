package server

import (
	"context"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
)

// bulkWait is how long a bulk waits for its turn. It has not been read by then, so
// it costs no memory.
const bulkWait = 5 * time.Second

// bulkGate bounds the bulks under way on this node, of all keys and of each: a body
// of 16 MB takes several times as much until its jobs are made.
type bulkGate struct {
	slots chan struct{}
	each  int
	mu    sync.Mutex
	byKey map[uuid.UUID]int
}

func newBulkGate(bulks int) *bulkGate {
	return &bulkGate{slots: make(chan struct{}, bulks), each: max(1, bulks/shareOfSlot), byKey: map[uuid.UUID]int{}}
}

// enter waits for a turn.
func (g *bulkGate) enter(ctx context.Context, key uuid.UUID) (leave func(), err error) {
	if !g.count(key, 1) {
		return nil, newProblem("rate_limited", "this key has too many bulks under way on this node; wait for their answers")
	}
	ctx, cancel := context.WithTimeout(ctx, bulkWait)
	defer cancel()
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots; g.count(key, -1) }, nil
	case <-ctx.Done():
		g.count(key, -1)
		return nil, newProblem("unavailable", "too many bulks are under way on this node; try again")
	}
}

func (g *bulkGate) count(key uuid.UUID, change int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.byKey[key] + change
	switch {
	case n > g.each:
		return false
	case n == 0:
		delete(g.byKey, key)
	default:
		g.byKey[key] = n
	}
	return true
}

// gated lets a bulk pass when it is its turn, before its body is read.
func (s *Server) gated(ctx huma.Context, next func(huma.Context)) {
	leave, err := s.bulks.enter(ctx.Context(), principal(ctx.Context()).Key)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	defer leave()
	next(ctx)
}
