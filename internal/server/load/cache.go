package load

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	ttl        = 5 * time.Second // of a response
	readLimit  = 5 * time.Second // for one read, which no client can cancel
	maxEntries = 200
)

// cache keeps responses for a moment. Requests that arrive while one is computed share it, so that many viewers cost
// as much as one. The zero value is ready for use.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	until time.Duration // by clock.Elapsed
	ready chan struct{} // closed when out and err are set
	out   *output
	err   error
}

func (c *cache) get(ctx context.Context, key string, read func(context.Context) (*output, error)) (*output, error) {
	e, created := c.entry(key)
	if created {
		c.fill(ctx, key, e, read)
	}
	select {
	case <-e.ready:
		return e.out, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fill computes an entry. Others may wait for it, so the client of this request cannot cancel it.
func (c *cache) fill(ctx context.Context, key string, e *entry, read func(context.Context) (*output, error)) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	defer close(e.ready)
	if e.out, e.err = read(limited); e.err != nil {
		c.drop(key, e)
	}
}

// entry returns the entry of a key, and whether the caller must fill it.
func (c *cache) entry(key string) (e *entry, created bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock.Elapsed()
	if e := c.entries[key]; e != nil && now < e.until {
		return e, false
	}
	if len(c.entries) >= maxEntries {
		maps.DeleteFunc(c.entries, func(_ string, e *entry) bool { return now >= e.until })
	}
	if c.entries == nil || len(c.entries) >= maxEntries {
		c.entries = map[string]*entry{}
	}
	e = &entry{until: now + ttl, ready: make(chan struct{})}
	c.entries[key] = e
	return e, true
}

// drop forgets an entry that could not be read.
func (c *cache) drop(key string, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] == e {
		delete(c.entries, key)
	}
}
