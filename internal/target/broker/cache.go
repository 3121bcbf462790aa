package broker

import "sync"

// The bounds of a cache.
const (
	maxCached      = 10_000
	maxCachedBytes = 32 << 20
)

// Cache keeps configs made ready, by their text: a changed config is another
// text, so nothing is ever out of date. Full, it starts anew.
type Cache[T any] struct {
	Make func(text string) (T, error)

	mu    sync.RWMutex
	known map[string]T
	bytes int
}

// Get makes a config ready, once.
func (c *Cache[T]) Get(text string) (T, error) {
	c.mu.RLock()
	found, ok := c.known[text]
	c.mu.RUnlock()
	if ok {
		return found, nil
	}
	made, err := c.Make(text)
	if err != nil {
		return made, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCached || c.bytes+len(text) > maxCachedBytes {
		c.known, c.bytes = make(map[string]T), 0
	}
	if _, raced := c.known[text]; !raced {
		c.known[text] = made
		c.bytes += len(text)
	}
	return made, nil
}
