package settings

import (
	"cmp"
	"sync"
)

// Default limits of a cache.
const (
	maxEntries = 10_000
	maxBytes   = 32 << 20 // of configs; what is parsed from them takes about as much again
)

// Cache keeps parsed configs by their text. A changed config has another text, so an entry is never out
// of date. A full cache is emptied: that costs each config in use one more parse, and deliveries need no
// bookkeeping of what was used last. Safe for concurrent use.
type Cache[T any] struct {
	Parse func(text string) (T, error)
	// Limits; 0: the defaults.
	MaxEntries, MaxBytes int

	mu      sync.RWMutex
	entries map[string]T
	bytes   int
}

// Get returns the parsed config. Invalid configs are not cached.
func (c *Cache[T]) Get(text string) (T, error) {
	c.mu.RLock()
	found, ok := c.entries[text]
	c.mu.RUnlock()
	if ok {
		return found, nil
	}
	parsed, err := c.Parse(text)
	if err != nil {
		return parsed, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= cmp.Or(c.MaxEntries, maxEntries) ||
		c.bytes+len(text) > cmp.Or(c.MaxBytes, maxBytes) {
		c.entries, c.bytes = make(map[string]T), 0
	}
	if _, raced := c.entries[text]; !raced {
		c.entries[text] = parsed
		c.bytes += len(text)
	}
	return parsed, nil
}
