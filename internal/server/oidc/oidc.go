// Package oidc logs people in to the web UI through an identity provider, by OpenID Connect (code flow with PKCE).
//
//	browser                     node                               provider
//	  ── GET /auth/oidc ─────────►  state in a sealed cookie
//	  ◄─ 303, to the provider ────
//	  ── logs in ─────────────────────────────────────────────────►
//	  ◄─ 303, back with a code ────────────────────────────────────
//	  ── GET /auth/oidc/callback ►  trades the code for a token ──►
//	                                checks the token  ◄────────────
//	  ◄─ 303, to the UI ──────────  a login session, as with a key
//
// The node keeps nothing between the two requests, so each node can answer the second one. The session cookie is
// SameSite=Strict, so browsers do not send it with the redirect at the end, which began at the provider. They need not:
// the page of the UI is public, and its own requests are of the same site.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const (
	startPath    = "/auth/oidc"
	callbackPath = startPath + "/callback"
	home         = "/ui/"

	stateLife    = 10 * time.Minute
	maxState     = 4 << 10 // bytes of the cookie
	maxNext      = 1000    // bytes of the path that follows the login
	maxCode      = 4 << 10 // bytes of the code
	maxCallbacks = 16      // in progress on this node

	purpose = "login at an identity provider" // of the sealed state
)

// Store is the part of the store that a login needs.
type Store interface {
	Namespaces(ctx context.Context) ([]access.Namespace, error)
	CreateLogin(ctx context.Context, o access.LoginParams) (access.Login, string, error)
}

// Options of the login.
type Options struct {
	Config
	Grants access.Grants
	Store  Store
	Log    *slog.Logger
}

type handlers struct {
	Options
	api       *rest.API
	provider  *provider
	callbacks chan struct{} // one for each callback in progress
}

// Register adds the routes of the login.
func Register(api *rest.API, o Options) {
	h := &handlers{o, api, newProvider(o.Config), make(chan struct{}, maxCallbacks)}
	api.Page(startPath, "start-oidc", h.start)
	api.Page(callbackPath, "finish-oidc", h.finish)
}

// state is what a browser keeps while it is at the provider.
type state struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of PKCE
	Redirect string    `json:"r"` // where the provider sends the browser
	Next     string    `json:"p"` // where the node sends it then
	Until    time.Time `json:"u"`
}

// session returns the id of the session that this login creates. It depends on the state, so a login that is replayed
// finds that its session exists.
func (s state) session() uuid.UUID {
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(purpose+s.State), 8)
}

// start sends a browser to the provider.
func (h *handlers) start(w http.ResponseWriter, r *http.Request) error {
	if !h.api.MayStart(r.Context()) {
		return rest.NewProblem("rate_limited", "too many logins were started from this address; wait a second")
	}
	s := state{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Redirect: rest.Origin(r) + callbackPath, Next: next(r.URL.Query().Get("next")), Until: clock.Now().Add(stateLife),
	}
	to, err := h.provider.start(r.Context(), s)
	if err != nil {
		return h.explain(r, err)
	}
	sealed, err := h.api.Seal(purpose, s)
	if err != nil {
		return err
	}
	w.Header().Set("Set-Cookie", rest.StateCookie(r.Context(), sealed, stateLife))
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// next returns the path that follows the login: a page of the UI, and nothing else.
func next(asked string) string {
	u, err := url.Parse(asked)
	if err != nil || len(asked) > maxNext || strings.ContainsAny(asked, "\\\r\n\t") || u.Scheme != "" || u.Host != "" ||
		u.User != nil || u.Opaque != "" || u.Path != path.Clean(u.Path) && u.Path != path.Clean(u.Path)+"/" ||
		!strings.HasPrefix(u.Path, home) {
		return home
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// finish answers the browser that comes back from the provider.
func (h *handlers) finish(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	if !h.api.MayStart(ctx) {
		return rest.NewProblem("rate_limited", "too many logins came from this address; wait a second")
	}
	select {
	case h.callbacks <- struct{}{}:
		defer func() { <-h.callbacks }()
	default:
		return rest.NewProblem("unavailable", "too many logins are under way on this node; try again")
	}
	s, err := h.state(r)
	if err != nil {
		return err
	}
	w.Header().Set("Set-Cookie", rest.StateCookie(ctx, "", 0)) // one use
	query := r.URL.Query()
	code := query.Get("code")
	switch {
	case query.Get("error") != "":
		return rest.NewProblem("forbidden", "the identity provider did not log you in: "+short(query.Get("error")))
	case query.Has("iss") && query.Get("iss") != h.Issuer:
		return rest.NewProblem("unauthenticated", "the login came back from another identity provider; log in again")
	case code == "" || len(code) > maxCode:
		return rest.NewProblem("bad_request", "the identity provider sent no code; log in again")
	}
	person, err := h.provider.finish(ctx, s, code)
	if err != nil {
		return h.explain(r, err)
	}
	return h.logIn(w, r, s, person)
}

// state returns the state of the browser's login. It is in a cookie, so a link with the state of another browser does
// not work.
func (h *handlers) state(r *http.Request) (s state, err error) {
	sealed := rest.State(r)
	if len(sealed) > maxState || !h.api.Unseal(purpose, sealed, &s) || clock.Now().After(s.Until) ||
		s.State == "" || subtle.ConstantTimeCompare([]byte(s.State), []byte(r.URL.Query().Get("state"))) == 0 {
		return s, rest.NewProblem("unauthenticated", "this login was not started in this browser, was completed before, "+
			"or took more than 10 minutes; log in again")
	}
	return s, nil
}

// logIn creates the session of a person.
func (h *handlers) logIn(w http.ResponseWriter, r *http.Request, s state, person access.Person) error {
	ctx := r.Context()
	person.Groups = h.Grants.Known(person.Groups)
	p, err := h.principal(ctx, person)
	if err != nil {
		return err
	}
	if p.Namespace == uuid.Nil {
		h.Log.Warn("login refused", "user", person.Name, "subject", person.Subject, "reason", "none of the groups has a role")
		return rest.NewProblem("forbidden",
			"you are logged in at the identity provider, but none of your groups may use Belfry; ask an administrator")
	}
	if err := h.api.Enter(ctx, p); err != nil {
		return err
	}
	l, secret, err := h.Store.CreateLogin(ctx, access.LoginParams{
		Principal: p, Client: rest.PeerOf(ctx).UserAgent, ID: s.session(),
	})
	if errors.Is(err, job.ErrConflict) {
		return rest.NewProblem("unauthenticated", "this login was completed before; log in again")
	}
	if err != nil {
		return err
	}
	w.Header().Add("Set-Cookie", rest.SessionCookie(ctx, secret, l.ExpiresAt.Sub(l.CreatedAt)))
	http.Redirect(w, r, s.Next, http.StatusSeeOther)
	return nil
}

// principal returns what a person acts as: in the namespace default, or else in the first by name, of those in which
// the person has a role. Its namespace is zero if there is none.
func (h *handlers) principal(ctx context.Context, person access.Person) (p access.Principal, err error) {
	roles := (&access.Provider{Issuer: h.Issuer, Grants: h.Grants}).Roles(person)
	all, err := h.Store.Namespaces(ctx)
	if err != nil {
		return p, err
	}
	all = slices.DeleteFunc(all, func(n access.Namespace) bool { return roles[n.Name] == "" })
	if len(all) == 0 {
		return p, nil
	}
	in := all[max(0, slices.IndexFunc(all, func(n access.Namespace) bool { return n.ID == access.DefaultNamespace }))]
	return access.Principal{
		Key: person.ID(), KeyName: person.Name, Person: person, Namespace: in.ID, NamespaceName: in.Name, Role: roles[in.Name],
	}, nil
}

// explain returns what the browser sees of an error. The log has the rest.
func (h *handlers) explain(r *http.Request, err error) error {
	rest.Fail(r, err)
	if errors.Is(err, errUnreachable) {
		return rest.NewProblem("unavailable", "the identity provider does not answer; try again, or log in with a key")
	}
	return rest.NewProblem("unauthenticated", "the answer of the identity provider was refused; log in again, or log in "+
		"with a key. The log of the node has the reason")
}
