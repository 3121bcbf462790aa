// Package shared shares the results of reads among requests.
package shared

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	sharedLimit = 5 * time.Second // for one read, which no client can cancel, because others wait for it
	failureAge  = time.Second     // how long a failure is shared
)

// Reads shares the results of reads among requests, so that many viewers cost as much as one. Requests that arrive
// during a read wait for it, no longer than their clients do. They share a failure too, so that a slow database is not
// asked again by each of them in turn.
type Reads[K comparable, T any] struct {
	Age     time.Duration        // how old a result may be
	Stale   time.Duration        // if longer than Age: how old a result may be while the next one is read
	Max     int                  // results that are kept
	Elapsed func() time.Duration // a clock that never goes back. Default: clock.Elapsed

	mu    sync.Mutex
	reads map[K]*result[T]
}

type result[T any] struct {
	began time.Duration
	until time.Duration // when it is too old; set when it has ended
	ended chan struct{}
	value T
	err   error

	before *result[T] // a result that may be used meanwhile
}

var errUnread = errors.New("the read did not end")

// Get returns the last result of a key, or reads it again.
func (s *Reads[K, T]) Get(ctx context.Context, key K, read func(context.Context) (T, error)) (T, error) {
	r, mine := s.join(key)
	switch {
	case mine && r.before != nil:
		before := r.before
		go s.run(ctx, r, read)
		return before.value, nil
	case mine:
		s.run(ctx, r, read)
	}
	select {
	case <-r.ended:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// join returns the read of a key, and whether the caller must do it.
func (s *Reads[K, T]) join(key K) (r *result[T], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.elapsed()
	old := func(r *result[T]) bool { return r.hasEnded() && now >= r.until }
	var stale *result[T]
	if r := s.reads[key]; r != nil {
		stale = r.before
		if r.hasEnded() && r.err == nil {
			stale = r
		}
		if stale != nil && now >= stale.began+s.Stale {
			stale = nil
		}
		switch {
		case !old(r) && stale != nil:
			return stale, false
		case !old(r):
			return r, false
		}
	}
	if len(s.reads) >= s.Max {
		maps.DeleteFunc(s.reads, func(_ K, r *result[T]) bool { return old(r) })
	}
	if s.reads == nil || len(s.reads) >= s.Max {
		s.reads = map[K]*result[T]{}
	}
	r = &result[T]{began: now, ended: make(chan struct{}), err: errUnread, before: stale}
	s.reads[key] = r
	return r, true
}

func (s *Reads[K, T]) run(ctx context.Context, r *result[T], read func(context.Context) (T, error)) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedLimit)
	defer cancel()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.until = r.began + s.Age
		if r.err != nil {
			r.until = s.elapsed() + failureAge
		} else {
			r.before = nil
		}
		close(r.ended)
	}()
	r.value, r.err = read(limited)
}

func (s *Reads[K, T]) elapsed() time.Duration {
	if s.Elapsed != nil {
		return s.Elapsed()
	}
	return clock.Elapsed()
}

// hasEnded is called while the lock is held.
func (r *result[T]) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}
