package server

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// keyTrust is how long a key that was found good is not asked about again: so
	// long one that was revoked on another node still works. One that expires works
	// until then and no longer.
	keyTrust = 5 * time.Second
	maxKeys  = 10_000 // in the cache
)

// needs is the metadata of an operation that says which role it asks for.
const needs = "role"

type principalKey struct{}

// principal is who asks. authenticate has put it there.
func principal(ctx context.Context) access.Principal {
	p, _ := ctx.Value(principalKey{}).(access.Principal)
	return p
}

// authenticate lets a request pass if its key may do what the operation needs.
func (s *Server) authenticate(ctx huma.Context, next func(huma.Context)) {
	r := recordOf(ctx.Context())
	r.operation = ctx.Operation().OperationID
	for _, p := range ctx.Operation().Parameters {
		if p.In == "path" {
			r.object = p.Name
		}
	}
	if roleOf(ctx.Operation()) == byToken {
		s.authenticateReport(ctx, next)
		return
	}
	p, err := s.find(ctx.Context(), ctx.Header("Authorization"), ctx.RemoteAddr())
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	r.key, r.namespace = p.Key, p.NamespaceName
	done, err := s.limiter.enter(p)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	done = sync.OnceFunc(done)
	defer done()
	r.yield = append(r.yield, done)
	role := roleOf(ctx.Operation())
	if !p.Role.May(role) {
		s.refuse(ctx, newProblem("forbidden", "this needs the role "+string(role)+", and the key has "+string(p.Role)))
		return
	}
	if role == access.Worker && !p.Serves(ctx.Param("queue")) {
		s.refuse(ctx, newProblem("forbidden", "the key is not one of this queue; belfry key create --role worker --queue makes one"))
		return
	}
	next(huma.WithValue(ctx, principalKey{}, p))
}

func (s *Server) refuse(ctx huma.Context, err error) {
	_, w := humago.Unwrap(ctx)
	var found *Problem
	if !errors.As(s.problem(ctx.Context(), err), &found) {
		found = newProblem("internal", "see the node's log")
	}
	switch found.Code {
	case "unauthenticated":
		w.Header().Set("WWW-Authenticate", `Bearer realm="belfry"`)
	case "rate_limited", "unavailable":
		w.Header().Set("Retry-After", retryAfter)
	}
	writeProblem(w, found)
}

// roleOf is the role that an operation needs. One that says nothing needs admin:
// forgetting it opens nothing.
func roleOf(o *huma.Operation) access.Role {
	if role, ok := o.Metadata[needs].(access.Role); ok {
		return role
	}
	return access.Admin
}

// find tells who a request comes from.
func (s *Server) find(ctx context.Context, header, address string) (p access.Principal, err error) {
	scheme, secret, _ := strings.Cut(header, " ")
	if header == "" || !strings.EqualFold(scheme, "Bearer") {
		return p, newProblem("unauthenticated", "send a key: Authorization: Bearer bfk_…; belfry key create makes one")
	}
	hash, err := access.KeyHash(strings.TrimSpace(secret))
	if err != nil {
		return p, newProblem("unauthenticated", "that is not a key of Belfry; is it complete?")
	}
	p, fresh, known := s.keys.get(hash)
	if fresh {
		return p, nil
	}
	// Guessing is hopeless; this keeps those who try from asking the database. Behind a proxy all clients have one
	// address: a good key among the bad ones is served all the same.
	if !known && !s.failures.mayTry(address) && !s.ring.has(ctx, s.opts.Keys, hash) {
		return p, newProblem("rate_limited", "too many unknown keys came from this address; wait a second")
	}
	asked := clock.Elapsed()
	p, err = s.opts.Keys.Principal(ctx, hash)
	switch {
	case errors.Is(err, job.ErrNotFound):
		s.keys.drop(hash)
		s.failures.count(address)
		return p, newProblem("unauthenticated", "the key is unknown, revoked or expired")
	case err != nil:
		recordOf(ctx).err = err
		return p, newProblem("unavailable", "the database does not answer; try again")
	}
	s.keys.put(hash, p, asked)
	return p, nil
}

// keyCache remembers good keys for keyTrust. Bad ones are asked about each time:
// a key that was just made must work.
type keyCache struct {
	mu     sync.Mutex
	byHash map[[32]byte]cachedKey
}

type cachedKey struct {
	principal access.Principal
	until     time.Duration // by clock.Elapsed
}

// get returns a key; fresh: it need not be asked about; known: it was good once.
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

// forget makes a revoked key useless on this node at once; on others it lives for
// keyTrust.
func (c *keyCache) forget(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.byHash, func(_ [32]byte, k cachedKey) bool { return k.principal.Key == id })
}

// put remembers a key that was asked about at a time of clock.Elapsed: its life is
// counted from before the question, so that it never seems longer than it is.
func (c *keyCache) put(hash [32]byte, p access.Principal, asked time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash == nil || len(c.byHash) >= maxKeys {
		c.byHash = map[[32]byte]cachedKey{}
	}
	trust := keyTrust
	if p.Left > 0 {
		trust = min(trust, p.Left)
	}
	c.byHash[hash] = cachedKey{p, asked + trust}
}

// ringTrust is how long a keyRing is not read anew.
const ringTrust = time.Second

// keyRing is which keys there are, by the beginning of their hashes. It is read
// only while an address sends too many unknown keys.
type keyRing struct {
	mu    sync.Mutex
	known map[[8]byte]bool
	until time.Duration // by clock.Elapsed
}

// has says whether a key may be good. One that was made within the last ringTrust
// may be missing: its request is told to come again after a second.
func (r *keyRing) has(ctx context.Context, keys Keys, hash [32]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if clock.Elapsed() >= r.until {
		all, err := keys.KeyHashes(ctx)
		if err != nil {
			recordOf(ctx).err = err
			return false
		}
		r.known = make(map[[8]byte]bool, len(all))
		for _, h := range all {
			r.known[h] = true
		}
		r.until = clock.Elapsed() + ringTrust
	}
	return r.known[[8]byte(hash[:8])]
}
