package expr

import "sync"

const maxKnown = 10_000

// cached names a compiled expression.
type cached struct {
	text  string
	scope Scope
}

// known caches compiled expressions by their text, so an entry is never out of date. When it is full, it is emptied:
// that costs one compilation for each expression in use, and evaluations need no bookkeeping.
var known = cache{max: maxKnown}

type cache struct {
	max int
	mu  sync.RWMutex
	by  map[cached]*Expression
}

func (c *cache) get(k cached, compile func(cached) (*Expression, error)) (*Expression, error) {
	c.mu.RLock()
	found := c.by[k]
	c.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	compiled, err := compile(k)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= c.max {
		c.by = make(map[cached]*Expression)
	}
	c.by[k] = compiled
	return compiled, nil
}
