package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/share"
)

// Limits of one node. 0 means the default.
type Limits struct {
	KeyRate  int // requests of a key per second
	KeyBurst int // requests of a key at once, after a quiet period
	Requests int // requests in progress
	Bulks    int // bulk requests in progress
	Bodies   int // bytes of memory for the bodies of requests in progress; see package body

	BodyTimeout time.Duration // for reading the body of an operation that has no time of its own
}

func (l Limits) orDefault() Limits {
	return Limits{
		KeyRate: cmp.Or(l.KeyRate, 1000), KeyBurst: cmp.Or(l.KeyBurst, 2000),
		Requests: cmp.Or(l.Requests, 200), Bulks: cmp.Or(l.Bulks, 4), Bodies: cmp.Or(l.Bodies, 256<<20),
		BodyTimeout: cmp.Or(l.BodyTimeout, 5*time.Second),
	}
}

// perKey returns how many of a node's slots one key may use at once: half of them, so that one key
// cannot shut out all others.
func perKey(slots int) int { return max(1, slots/2) }

const (
	retryAfter  = "1" // second
	opTimeout   = 30 * time.Second
	maxLimited  = 10_000 // keys, and addresses, that are limited one by one
	failRate    = 10     // unknown keys from an address per second
	failBurst   = 50
	ipv6Network = 64 // bits of an IPv6 address that name a network
)

// limit rejects requests beyond what the node handles at once, and bounds their size and time.
func (a *API) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := recordOf(r.Context())
		rec.client, rec.slot.pool = r.Context(), a.slots
		if p := rec.slot.take(uuid.Nil); p != nil {
			w.Header().Set("Retry-After", retryAfter)
			writeProblem(w, p)
			return
		}
		defer rec.slot.give()
		// A client that disconnects does not cancel its request: cancelling a statement costs a database
		// connection, and impatient clients would cost the node all of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), opTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		rec.body, r.Body = r.Body, http.NoBody // see admitBody
		if p := checkURL(r.URL); p != nil {
			writeProblem(w, p)
			return
		}
		if found := verbRequest(r); found != nil {
			next.ServeHTTP(w, found)
			return
		}
		notFound(w, r)
	})
}

// slot is the right of a request to use the node. The slots are shared by namespaces, and requests whose namespace is
// not known have a share of their own.
type slot struct {
	pool  *share.Pool
	owner uuid.UUID
	held  bool
}

// take takes a slot for a namespace, in place of the one that the request has.
func (s *slot) take(namespace uuid.UUID) *Problem {
	s.give()
	switch err := s.pool.Take(namespace, 1); {
	case errors.Is(err, share.ErrMost) && namespace != uuid.Nil:
		return NewProblem("rate_limited",
			"this namespace has too many requests under way on this node; wait for their answers")
	case err != nil:
		return NewProblem("unavailable", "too many requests are under way on this node; try again")
	}
	s.owner, s.held = namespace, true
	return nil
}

// give frees the slot. It may be called more than once.
func (s *slot) give() {
	if s.held {
		s.held = false
		s.pool.Give(s.owner, 1)
	}
}

// checkURL rejects a URL with text that the database cannot store.
func checkURL(u *url.URL) *Problem {
	texts := []string{u.Path}
	query, err := url.ParseQuery(u.RawQuery)
	for key, values := range query {
		texts = append(append(texts, key), values...)
	}
	switch {
	case err != nil || slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }):
		return NewProblem("bad_request", "the path or the query has a character that is not UTF-8, "+
			"or a % that two hexadecimal digits do not follow; escape it as UTF-8")
	case slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsRune(s, 0) }):
		return NewProblem("invalid", "the path or the query has the character NUL, which no name has; remove it")
	}
	return nil
}

// keyLimiter bounds the requests of a key on this node: per second, and in progress.
type keyLimiter struct {
	limits Limits
	mu     sync.Mutex
	byKey  map[uuid.UUID]*keyUse
}

type keyUse struct {
	rate       *rate.Limiter
	inProgress int
}

func (l *keyLimiter) enter(key uuid.UUID) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil || len(l.byKey) >= maxLimited {
		l.byKey = map[uuid.UUID]*keyUse{}
	}
	use, ok := l.byKey[key]
	if !ok {
		use = &keyUse{rate: rate.NewLimiter(rate.Limit(l.limits.KeyRate), l.limits.KeyBurst)}
		l.byKey[key] = use
	}
	if use.inProgress >= perKey(l.limits.Requests) {
		return nil, NewProblem("rate_limited", "this key has too many requests under way; wait for their answers")
	}
	if !use.rate.Allow() {
		return nil, NewProblem("rate_limited", "this key has sent too many requests; wait a second")
	}
	use.inProgress++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		use.inProgress--
	}, nil
}

// failureLimiter counts unknown keys by the address they came from.
type failureLimiter struct {
	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter
}

// mayTry reports whether the database may be asked about one more key from an address.
func (l *failureLimiter) mayTry(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.byAddr[network(address)]
	return !ok || r.Tokens() >= 1
}

func (l *failureLimiter) count(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byAddr == nil || len(l.byAddr) >= maxLimited {
		l.byAddr = map[netip.Prefix]*rate.Limiter{}
	}
	from := network(address)
	r, ok := l.byAddr[from]
	if !ok {
		r = rate.NewLimiter(failRate, failBurst)
		l.byAddr[from] = r
	}
	r.Allow()
}

// network returns the network of an address: with IPv6 a whole /64, because one client has all of it.
func network(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap()
	p, err := ip.Prefix(min(ip.BitLen(), ipv6Network))
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
