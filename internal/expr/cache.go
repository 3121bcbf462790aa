package expr

import "sync"

const maxKnown = 10_000

// cached names a compiled expression.
type cached struct {
	text  string
	scope Scope
}

// known keeps compiled expressions by their text: a changed one is another text,
// so nothing is ever out of date. Full, it starts anew: that costs each in use one
// compilation, and needs no bookkeeping in each evaluation.
var known = cache{most: maxKnown}

type cache struct {
	most int
	mu   sync.RWMutex
	by   map[cached]*Expression
}

func (c *cache) get(k cached, compile func(cached) (*Expression, error)) (*Expression, error) {
	c.mu.RLock()
	found := c.by[k]
	c.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	made, err := compile(k)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= c.most {
		c.by = make(map[cached]*Expression)
	}
	c.by[k] = made
	return made, nil
}
