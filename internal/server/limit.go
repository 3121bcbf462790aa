package server

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/access"
)

// Limits of one node. What is 0 has its default.
type Limits struct {
	KeyRate  int // requests of a key per second
	KeyBurst int // of a key at once, after a rest
	Requests int // under way at once
	Bulks    int // bulks among them, and half of that of a key
}

func (l Limits) orDefault() Limits {
	for _, f := range []struct {
		value    *int
		fallback int
	}{{&l.KeyRate, 1000}, {&l.KeyBurst, 2000}, {&l.Requests, 200}, {&l.Bulks, 4}} {
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	return l
}

const (
	retryAfter  = "1"    // second
	maxLimited  = 10_000 // keys, and addresses, that are told apart
	failRate    = 10     // unknown keys from an address per second
	failBurst   = 50
	lineRate    = 50 // log lines of refused requests per second
	lineBurst   = 200
	sixtyFour   = 64 // bits of an IPv6 address that name a network
	shareOfSlot = 2  // a key may have one in so many of the requests under way
)

// bounded holds back what is more than the node can do at once, and bounds the
// size and the time of a request.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.slots <- struct{}{}:
			done := sync.OnceFunc(func() { <-s.slots })
			defer done()
			rec := recordOf(r.Context())
			rec.client, rec.yield = r.Context(), append(rec.yield, done)
		default:
			w.Header().Set("Retry-After", retryAfter)
			writeProblem(w, newProblem("unavailable", "too many requests are under way on this node; try again"))
			return
		}
		// Not cancelled when the client goes away: a statement that is cancelled costs its connection, and clients
		// without patience would cost the node all of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), opTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r))
		if p := malformed(r.URL); p != nil {
			writeProblem(w, p)
			return
		}
		if meant := verbRequest(r); meant != nil {
			next.ServeHTTP(w, meant)
			return
		}
		notFound(w, r)
	})
}

// malformed tells why a database cannot hold a text of a URL; nil: it can.
func malformed(u *url.URL) *Problem {
	texts := []string{u.Path}
	query, err := url.ParseQuery(u.RawQuery)
	for key, values := range query {
		texts = append(append(texts, key), values...)
	}
	switch {
	case err != nil || slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }):
		return newProblem("bad_request", "the path or the query has a character that is not UTF-8, or a % that two hexadecimal digits do not follow; escape it as UTF-8")
	case slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsRune(s, 0) }):
		return newProblem("invalid", "the path or the query has the character NUL, which no name has; remove it")
	}
	return nil
}

// Unavailable answers every request with why there is no API, and closes the
// connection, so that the client may find another node.
func Unavailable(why string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.Header().Set("Connection", "close")
		writeProblem(w, newProblem("unavailable", why))
	})
}

// keyLimiter bounds what a key may ask of this node: requests per second, and
// half of those under way, so that one key cannot shut out all others.
type keyLimiter struct {
	limits Limits
	mu     sync.Mutex
	byKey  map[uuid.UUID]*keyUse
}

type keyUse struct {
	rate     *rate.Limiter
	underway int
}

func (l *keyLimiter) enter(p access.Principal) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil || len(l.byKey) >= maxLimited {
		l.byKey = map[uuid.UUID]*keyUse{}
	}
	use, ok := l.byKey[p.Key]
	if !ok {
		use = &keyUse{rate: rate.NewLimiter(rate.Limit(l.limits.KeyRate), l.limits.KeyBurst)}
		l.byKey[p.Key] = use
	}
	if use.underway >= max(1, l.limits.Requests/shareOfSlot) {
		return nil, newProblem("rate_limited", "this key has too many requests under way; wait for their answers")
	}
	if !use.rate.Allow() {
		return nil, newProblem("rate_limited", "this key has sent too many requests; wait a second")
	}
	use.underway++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		use.underway--
	}, nil
}

// failureLimiter counts unknown keys by the address that they came from.
type failureLimiter struct {
	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter
}

// mayTry says whether one more key from an address is looked up.
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

// network is whom an address belongs to: with IPv6, all of a /64.
func network(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap()
	p, err := ip.Prefix(min(ip.BitLen(), sixtyFour))
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
