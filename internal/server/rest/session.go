package rest

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
)

// A browser authenticates with the cookie of a login session. Browsers send cookies by themselves, also with requests
// that a page of another site causes, so such a request has to prove more than that: see checkOrigin and checkIntent.

const (
	// secureCookie is the name of the cookie. By the prefix __Host-, browsers accept it from HTTPS alone, and from no
	// other host of the domain.
	secureCookie = "__Host-belfry"
	// localCookie is its name on this machine without TLS, where browsers refuse the prefix. See Peer.local.
	localCookie = "belfry"
	// stateSuffix makes the name of the cookie that a browser has while it logs in at an identity provider.
	stateSuffix = "-login"
	// intentHeader is a header that no form and no link can send, and no page of another origin without CORS.
	intentHeader = "Belfry-UI"
)

// Peer is what is known about the client of a request.
type Peer struct {
	Address   string // and port. Behind a proxy, that of the proxy
	UserAgent string
	// ThisMachine: the client is on the same machine, and addressed the node by a loopback address.
	ThisMachine bool

	local bool // plain HTTP to a loopback address
}

// PeerOf returns the client of a request.
func PeerOf(ctx context.Context) Peer { return recordOf(ctx).peer }

func peerOf(r *http.Request) Peer {
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	return Peer{
		Address: r.RemoteAddr, UserAgent: r.UserAgent(), local: isLocal(r),
		ThisMachine: isLoopback(remote) && isLoopback(hostname(r.Host)),
	}
}

// ForThisMachine serves requests that name a loopback address as their host, and rejects others. By DNS rebinding, a page
// in a browser on this machine reaches a loopback address under its own name, and could read the answer.
func ForThisMachine(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !peerOf(r).ThisMachine {
			writeProblem(w, NewProblem("forbidden", "on this address, this is only for requests whose host is a loopback "+
				"address, such as 127.0.0.1 or localhost; for others, set metrics_listen"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLocal reports whether a request came by plain HTTP to a loopback address, as with belfry dev. A proxy on the same
// machine that ends TLS can look like this too, and is recognized by what it or the browser says.
func isLocal(r *http.Request) bool {
	return r.TLS == nil && isLoopback(hostname(r.Host)) &&
		!strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "https:") &&
		!strings.Contains(strings.ToLower(r.Header.Get("X-Forwarded-Proto")), "https")
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// sessionSecret returns the secret of the login session of a request; empty: it has none.
func sessionSecret(r *http.Request) string {
	if c, err := r.Cookie(secureCookie); err == nil {
		return c.Value
	}
	if c, err := r.Cookie(localCookie); err == nil && isLocal(r) {
		return c.Value
	}
	return ""
}

// SessionCookie returns the header Set-Cookie that gives a login session to the client. A life of 0 removes it.
func SessionCookie(ctx context.Context, secret string, life time.Duration) string {
	c := http.Cookie{ //nolint:gosec // Secure is removed on this machine alone
		Name: secureCookie, Value: secret, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	}
	if PeerOf(ctx).local {
		c.Name, c.Secure = localCookie, false
	}
	if life <= 0 {
		c.MaxAge = -1 // Max-Age=0
	}
	return c.String()
}

// StateCookie returns the header Set-Cookie for the state of a login at an identity provider. The browser comes back from
// another site, so the cookie is Lax: it is sent with links from there, and with no other request. A life of 0 removes
// it.
func StateCookie(ctx context.Context, value string, life time.Duration) string {
	c := http.Cookie{ //nolint:gosec // Secure is removed on this machine alone
		Name: secureCookie + stateSuffix, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
	if PeerOf(ctx).local {
		c.Name, c.Secure = localCookie+stateSuffix, false
	}
	if life <= 0 {
		c.MaxAge = -1 // Max-Age=0
	}
	return c.String()
}

// State returns the value of the StateCookie of a request; empty: it has none.
func State(r *http.Request) string {
	name := secureCookie + stateSuffix
	if isLocal(r) {
		name = localCookie + stateSuffix
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// Origin returns the origin of this node as the browser addressed it. Browsers keep the cookies of a login over HTTPS
// alone, or on this machine, so plain HTTP elsewhere means that a proxy terminates TLS.
func Origin(r *http.Request) string {
	if isLocal(r) {
		return "http://" + r.Host
	}
	return "https://" + r.Host
}

// checkOrigin rejects a request that changes something and comes from a page of another origin. Browsers say where a
// request comes from (Sec-Fetch-Site, Origin); other clients say nothing and pass.
func (a *API) checkOrigin(r *http.Request) error {
	if a.origins.Check(r) == nil {
		return nil
	}
	return NewProblem("forbidden", "a page of another origin sent this request; a browser may only send it from the "+
		"node's own pages. Behind a proxy, pass the header Host on unchanged")
}

// checkIntent rejects a request with a cookie that changes something, unless a script sent it on purpose.
func checkIntent(r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	if r.Header.Get(intentHeader) == "1" {
		return nil
	}
	return NewProblem("forbidden", "a request that changes something and authenticates with a cookie needs the header "+
		intentHeader+": 1; programs send a key instead: Authorization: Bearer bfk_…")
}

// LogIn returns the principal of a key that a client trades for a login session. Unknown keys and requests count
// against the same limits as everywhere.
func (a *API) LogIn(ctx context.Context, key string) (p access.Principal, err error) {
	p, err = a.identifyKey(ctx, strings.TrimSpace(key), PeerOf(ctx).Address)
	if err != nil {
		return p, err
	}
	return p, a.Enter(ctx, p)
}

// Enter counts a login against the limits of its key or person, and notes who logs in for the log.
func (a *API) Enter(ctx context.Context, p access.Principal) error {
	recordOf(ctx).caller = p
	done, err := a.limiter.enter(p.Key)
	if err != nil {
		return err
	}
	done() // the request has a slot of the node; creating a session is short
	return nil
}

// MayStart limits how many logins at an identity provider an address begins: as many as it may try unknown keys.
func (a *API) MayStart(ctx context.Context) bool {
	address := PeerOf(ctx).Address
	if !a.starts.mayTry(address) {
		return false
	}
	a.starts.count(address)
	return true
}

// Guess limits attempts to guess a secret other than a key: it calls right, and counts a wrong guess like an unknown
// key of the same address.
func (a *API) Guess(ctx context.Context, right func() bool) (bool, error) {
	address := PeerOf(ctx).Address
	switch {
	case !a.failures.mayTry(address):
		return false, tooManyFailures()
	case right():
		return true, nil
	}
	a.failures.count(address)
	return false, nil
}
