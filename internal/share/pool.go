// Package share divides what a node has among those who want it, such as its namespaces.
package share

import (
	"errors"
	"sync"

	"github.com/google/uuid"
)

// Errors of Take.
var (
	ErrFull = errors.New("the pool is used up")
	ErrMost = errors.New("the owner has its share of the pool")
)

// perFree is how many times what is left an owner may have. One owner alone gets four fifths of a pool and leaves a
// fifth to others, two get four ninths each, and n of them leave size ÷ (4n + 1).
const perFree = 4

// Pool has a fixed size, of which owners take parts for a while. An owner gets much of a pool that others leave alone,
// and less the more others want it, so that something is left for each newcomer. It is safe for concurrent use.
type Pool struct {
	mu   sync.Mutex
	size int64
	used int64
	by   map[uuid.UUID]int64 // owners that have something
}

// New returns a pool.
func New(size int64) *Pool { return &Pool{size: size, by: map[uuid.UUID]int64{}} }

// Take takes n for an owner. An owner that has nothing may take all that is left.
func (p *Pool) Take(owner uuid.UUID, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.size - p.used - n
	has := p.by[owner]
	switch {
	case left < 0:
		return ErrFull
	case has > 0 && has+n > perFree*left:
		return ErrMost
	}
	p.used += n
	p.by[owner] = has + n
	return nil
}

// Used returns how much all owners have.
func (p *Pool) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Give returns what an owner took.
func (p *Pool) Give(owner uuid.UUID, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
	if p.by[owner] -= n; p.by[owner] == 0 {
		delete(p.by, owner)
	}
}
