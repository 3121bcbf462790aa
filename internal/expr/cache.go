package expr

import "sync"

// Limits of the cache. Compiled, a byte of text takes up to about 100, and an expression at least 3 kB.
const (
	maxKnown = 10_000
	maxBytes = 512 << 10 // of text
)

// cached names a compiled expression.
type cached struct {
	text  string
	scope Scope
}

// known caches compiled expressions by their text, so an entry is never out of date. When it is full, it is emptied:
// that costs one compilation for each expression in use, and evaluations need no bookkeeping. Only evaluations fill it.
var known cache

type cache struct {
	mu    sync.RWMutex
	by    map[cached]*Expression
	bytes int
}

func (c *cache) get(k cached) *Expression {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.by[k]
}

func (c *cache) put(k cached, compiled *Expression) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxKnown || c.bytes+len(k.text) > maxBytes {
		c.by, c.bytes = make(map[cached]*Expression), 0
	}
	if c.by[k] == nil {
		c.bytes += len(k.text)
	}
	c.by[k] = compiled
}
