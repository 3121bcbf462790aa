package rest

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/server/shared"
)

const (
	// keyTTL is how long a node trusts a key without asking the database again. A key that was revoked
	// on another node works here for up to this long. Expiry is exact.
	keyTTL = 5 * time.Second
	// keyLimit is how long a lookup may take. Workers must learn in time that the database does not answer.
	keyLimit = 3 * time.Second
	maxKeys  = 10_000 // in the cache
)

// keyCache remembers good keys for keyTTL. It does not remember unknown keys, because a key must work
// as soon as it is created.
type keyCache struct {
	mu     sync.Mutex
	byHash map[[32]byte]cachedKey
	// forgotten counts calls of forget: a lookup that began before one may have read a key that is revoked now.
	forgotten int64
}

type cachedKey struct {
	principal access.Principal
	until     time.Duration // by clock.Elapsed
}

// get returns a cached key. fresh: the database need not be asked. known: the key was good once.
func (c *keyCache) get(hash [32]byte) (p access.Principal, fresh, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.byHash[hash]
	return k.principal, ok && clock.Elapsed() < k.until, ok
}

func (c *keyCache) drop(hash [32]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byHash, hash)
}

func (c *keyCache) forget(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	maps.DeleteFunc(c.byHash, func(_ [32]byte, k cachedKey) bool { return k.principal.Key == id })
}

// lookup is when the database was asked for a key.
type lookup struct {
	at        time.Duration // by clock.Elapsed
	forgotten int64
}

// begin is called before the database is asked.
func (c *keyCache) begin() lookup {
	c.mu.Lock()
	defer c.mu.Unlock()
	return lookup{clock.Elapsed(), c.forgotten}
}

// put remembers a key, from the time at which the lookup began, so that the key never lives longer here than in the
// database. It does not if a key was revoked since.
func (c *keyCache) put(hash [32]byte, p access.Principal, began lookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgotten != began.forgotten {
		return
	}
	if c.byHash == nil || len(c.byHash) >= maxKeys {
		c.byHash = map[[32]byte]cachedKey{}
	}
	ttl := keyTTL
	if p.Left > 0 {
		ttl = min(ttl, p.Left)
	}
	c.byHash[hash] = cachedKey{p, began.at + ttl}
}

// hashesTTL is how long the set of existing keys is used before it is read again.
const hashesTTL = time.Second

// knownHashes is the set of existing keys, by the first bytes of their hashes. It is read only while an
// address sends too many unknown keys, at most once per hashesTTL. While one request reads it, others use the last one
// for up to keyTTL, so that a slow database does not make them wait.
type knownHashes struct {
	shared.Reads[struct{}, map[[8]byte]bool]
}

func newKnownHashes() *knownHashes {
	h := &knownHashes{}
	h.Age, h.Stale, h.Max = hashesTTL, keyTTL, 1
	return h
}

// has reports whether a key may be good. A key created within the last hashesTTL may be missing: its
// request is rejected with Retry-After: 1.
func (r *knownHashes) has(ctx context.Context, keys Keys, hash [32]byte) bool {
	known, err := r.Get(ctx, struct{}{}, func(ctx context.Context) (map[[8]byte]bool, error) {
		all, err := keys.KeyHashes(ctx)
		known := make(map[[8]byte]bool, len(all))
		for _, h := range all {
			known[h] = true
		}
		return known, err
	})
	if err != nil {
		recordOf(ctx).err = err
		return false
	}
	return known[[8]byte(hash[:8])]
}
