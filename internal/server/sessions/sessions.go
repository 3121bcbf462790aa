// Package sessions has the operations of login sessions, with which the web UI authenticates. A browser trades a key for
// a session once, or logs in through an identity provider (internal/server/oidc), and keeps a cookie that its scripts
// cannot read. internal/server/rest checks the cookie.
package sessions

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Store is the part of the store that has the login sessions.
type Store interface {
	CreateLogin(ctx context.Context, o access.LoginParams) (access.Login, string, error)
	Logins(ctx context.Context, namespace, owner uuid.UUID) ([]access.Login, error)
	EndLogin(ctx context.Context, p access.Principal) error
	RevokeLogins(ctx context.Context, o access.RevokeLoginsParams) (ended, aborted int, err error)
	Namespaces(ctx context.Context) ([]access.Namespace, error)
}

// Options of the operations.
type Options struct {
	Store   Store
	Code    *Code  // nil: no code works
	Version string // of the node
	// Provider is the identity provider whose people may log in; nil: there is none.
	Provider *access.Provider
}

// maxBody is more than a key, a code or a namespace needs. Everyone may send a login.
const (
	maxBody  = 16 << 10
	tooLarge = "send what the reference says, and nothing else"
)

type handlers struct {
	Options
	api *rest.API
}

// Register adds the operations to an API.
func Register(api *rest.API, o Options) {
	h := &handlers{o, api}
	rest.Register(api, rest.Operation{
		ID: "create-login-session", Route: "POST /session", Summary: "Log in", Role: rest.Public,
		MaxBody: maxBody, TooLarge: tooLarge,
		Status: http.StatusCreated, Description: "Trades a key for a login session and sets its cookie, " +
			"which browsers keep from scripts. For the web UI: programs send the key itself with each request. " +
			"A session lasts 12 hours, ends after an hour without a request, and ends with its key. A key has at most " +
			"20 sessions: the next login ends the oldest. Keys of workers cannot log in.",
	}, h.create)
	rest.Register(api, rest.Operation{
		ID: "get-login-session", Route: "GET /session", Summary: "Get the session that sends the request",
		Role: access.Viewer,
	}, h.get)
	rest.Register(api, rest.Operation{
		ID: "delete-login-session", Route: "DELETE /session", Summary: "Log out", Role: access.Viewer,
		Status: http.StatusNoContent, Description: "Ends the session that sends the request, and removes its cookie.",
	}, h.end)
	rest.Register(api, rest.Operation{
		ID: "switch-login-session", Route: "POST /session:switch", Summary: "Switch to another namespace",
		MaxBody: maxBody, TooLarge: tooLarge,
		Role: access.Viewer, Status: http.StatusCreated, Description: "Ends the session that sends the request, and " +
			"creates one in another namespace, which ends when the first one would have. For people who logged in " +
			"through an identity provider: a key has one namespace.",
	}, h.change)
	rest.Register(api, rest.Operation{
		ID: "list-login-sessions", Route: "GET /sessions", Summary: "List your sessions",
		Role: access.Viewer, Description: "Lists the live login sessions, in this namespace, of the key or the person " +
			"that sends the request. An admin can list those of another person by `subject`.",
	}, h.list)
	rest.Register(api, rest.Operation{
		ID: "revoke-login-sessions", Route: "POST /sessions:revoke", Summary: "Log out everywhere",
		Role: access.Viewer, Description: "Ends all login sessions, in this namespace, of the key or the person that " +
			"sends the request. An admin can end those of another person by `subject`. " +
			"Other nodes accept them for up to 5 seconds.",
	}, h.revoke)
}

// LoginRequest has either a key or a code.
type LoginRequest struct {
	Key  string `json:"key,omitempty" maxLength:"200" doc:"The key. It is not stored in the browser."`
	Code string `json:"code,omitempty" maxLength:"200" doc:"The code that belfry dev printed. It works once."`
}

type createInput struct {
	Body LoginRequest
}

// LoginSession is a login session, and who it acts as.
type LoginSession struct {
	ID        string    `json:"id" doc:"The id of the session. Not secret."`
	Namespace string    `json:"namespace"`
	Role      rest.Role `json:"role"`
	Name      string    `json:"name" doc:"The name of the key or the person that logged in."`
	Actor     string    `json:"actor" doc:"How versions and the audit log name the key or the person."`
	Subject   string    `json:"subject,omitempty" doc:"The identity provider's id of the person. Missing: a key."`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at" doc:"When the session ends at the latest."`
	Version   string    `json:"version" doc:"The version of the node that answers."`

	Namespaces []SessionNamespace `json:"namespaces,omitempty" doc:"Of a person: the namespaces to switch between, by name."`
}

// SessionNamespace is a namespace that a person may use.
type SessionNamespace struct {
	Name string    `json:"name"`
	Role rest.Role `json:"role" doc:"The role of the person there."`
}

// session describes a session.
func (h *handlers) session(ctx context.Context, p access.Principal, l access.Login) (s LoginSession, err error) {
	s = LoginSession{
		ID: access.FormatLoginID(l.ID), Namespace: p.NamespaceName, Role: rest.Role(p.Role), Name: p.KeyName,
		Actor: p.Actor(), Subject: p.Person.Subject, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, Version: h.Version,
	}
	if p.IsPerson() {
		all, err := h.namespaces(ctx, p)
		if err != nil {
			return s, err
		}
		s.Namespaces = rest.Map(all, func(n access.Principal) SessionNamespace {
			return SessionNamespace{n.NamespaceName, rest.Role(n.Role)}
		})
	}
	return s, nil
}

// namespaces returns a person in each namespace that exists and gives the person a role, by name.
func (h *handlers) namespaces(ctx context.Context, p access.Principal) (out []access.Principal, err error) {
	all, err := h.Store.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	roles := h.Provider.Roles(p.Person)
	for _, n := range all {
		if role, ok := roles[n.Name]; ok {
			p.Namespace, p.NamespaceName, p.Role = n.ID, n.Name, role
			out = append(out, p)
		}
	}
	return out, nil
}

type createOutput struct {
	Location  string `header:"Location"`
	SetCookie string `header:"Set-Cookie" doc:"The cookie of the session."`
	Body      LoginSession
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	if (in.Body.Key == "") == (in.Body.Code == "") {
		p := rest.NewProblem("invalid", "send a key, or the code that belfry dev printed")
		p.Problems = []rest.FieldProblem{{
			Field: "key", Problem: "the request needs either a key or a code", Fix: "send one of them",
		}}
		return nil, p
	}
	if in.Body.Key != "" {
		return h.logIn(ctx, in.Body.Key)
	}
	right, err := h.api.Guess(ctx, func() bool { return rest.PeerOf(ctx).ThisMachine && h.Code.matches(in.Body.Code) })
	if err != nil {
		return nil, err
	}
	var out *createOutput
	if right {
		right, err = h.Code.use(func(key string) error {
			out, err = h.logIn(ctx, key)
			return err
		})
	}
	if !right {
		return nil, rest.NewProblem("unauthenticated", "the code does not work: only belfry dev prints one, and it works "+
			"once, within 10 minutes, in a browser on the same machine; log in with a key")
	}
	return out, err
}

// logIn creates a session of a key.
func (h *handlers) logIn(ctx context.Context, key string) (*createOutput, error) {
	p, err := h.api.LogIn(ctx, key)
	if err != nil {
		return nil, err
	}
	if p.Role == access.Worker {
		return nil, rest.NewProblem("forbidden", "a key of the role worker cannot log in; use one of another role")
	}
	l, secret, err := h.Store.CreateLogin(ctx, access.LoginParams{Principal: p, Client: rest.PeerOf(ctx).UserAgent})
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil, rest.NewProblem("unauthenticated", "the key is unknown, revoked or expired")
	case err != nil:
		return nil, err
	}
	return h.created(ctx, p, l, secret)
}

// created answers with a new session and its cookie.
func (h *handlers) created(
	ctx context.Context, p access.Principal, l access.Login, secret string,
) (out *createOutput, err error) {
	out = &createOutput{
		Location: rest.BasePath + "/session", SetCookie: rest.SessionCookie(ctx, secret, l.ExpiresAt.Sub(l.CreatedAt)),
	}
	out.Body, err = h.session(ctx, p, l)
	return out, err
}

type getOutput struct {
	Body LoginSession
}

func (h *handlers) get(ctx context.Context, _ *struct{}) (*getOutput, error) {
	p := rest.Principal(ctx)
	l, err := h.current(ctx, p)
	if err != nil {
		return nil, err
	}
	s, err := h.session(ctx, p, l)
	return &getOutput{s}, err
}

// current returns the session that sends the request.
func (h *handlers) current(ctx context.Context, p access.Principal) (access.Login, error) {
	all, err := h.Store.Logins(ctx, p.Namespace, p.Key)
	if err != nil {
		return access.Login{}, err
	}
	for _, l := range all {
		if l.ID == p.Login {
			return l, nil
		}
	}
	return access.Login{}, noSession()
}

// noSession returns a new problem each time, because each response adds its own request id.
func noSession() *rest.Problem {
	return rest.NewProblem("not_found", "the request has no login session; GET /api/v1/self describes its key")
}

type endOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"Removes the cookie of the session."`
}

func (h *handlers) end(ctx context.Context, _ *struct{}) (*endOutput, error) {
	p := rest.Principal(ctx)
	if p.Login == uuid.Nil {
		return nil, noSession()
	}
	if err := h.Store.EndLogin(ctx, p); err != nil && !errors.Is(err, job.ErrNotFound) { // it may have ended meanwhile
		return nil, err
	}
	h.api.ForgetKey(p.Key)
	return &endOutput{rest.SessionCookie(ctx, "", 0)}, nil
}

// LoginSessionSummary is one of the sessions of a key or a person.
type LoginSessionSummary struct {
	ID        string    `json:"id"`
	Name      string    `json:"name" doc:"The name of the key or the person that logged in."`
	Client    string    `json:"client" doc:"How the browser described itself (User-Agent)."`
	CreatedAt time.Time `json:"created_at"`
	UsedAt    time.Time `json:"used_at" doc:"When it was last used, accurate to a minute."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it ends at the latest."`
	Current   bool      `json:"current" doc:"Whether this session sends the request."`
}

// LoginSessionList lists the sessions of a key or a person.
type LoginSessionList struct {
	Items []LoginSessionSummary `json:"items" doc:"The newest first, at most 20."`
}

type listOutput struct {
	Body LoginSessionList
}

// OwnerQuery names whose sessions are meant.
type OwnerQuery struct {
	Subject string `query:"subject" maxLength:"255" doc:"The identity provider's id of another person. Needs the role admin."`
}

// owner returns whose sessions are meant: a person, or the one who asks.
func (h *handlers) owner(p access.Principal, q OwnerQuery) (access.Principal, error) {
	switch {
	case q.Subject == "":
		return p, nil
	case !p.Role.May(access.Admin):
		return p, rest.NewProblem("forbidden", "the sessions of others need the role admin")
	case h.Provider == nil:
		return p, rest.NewProblem("not_found", "no identity provider is configured; revoke a key to end its sessions")
	}
	other := access.Person{Issuer: h.Provider.Issuer, Subject: q.Subject}
	return access.Principal{Namespace: p.Namespace, Key: other.ID(), Person: other}, nil
}

func (h *handlers) list(ctx context.Context, in *OwnerQuery) (*listOutput, error) {
	p := rest.Principal(ctx)
	of, err := h.owner(p, *in)
	if err != nil {
		return nil, err
	}
	all, err := h.Store.Logins(ctx, p.Namespace, of.Key)
	if err != nil {
		return nil, err
	}
	out := &listOutput{}
	out.Body.Items = rest.Map(all, func(l access.Login) LoginSessionSummary {
		return LoginSessionSummary{
			ID: access.FormatLoginID(l.ID), Name: cmp.Or(l.Name, p.KeyName), Client: l.Client, CreatedAt: l.CreatedAt,
			UsedAt: l.UsedAt, ExpiresAt: l.ExpiresAt, Current: l.ID == p.Login,
		}
	})
	return out, nil
}

// RevokedSessions says how many sessions were ended.
type RevokedSessions struct {
	Revoked int `json:"revoked" doc:"How many sessions have ended, including the one that sent the request."`
	Aborted int `json:"aborted_operations" doc:"How many operations of another person were aborted."`
}

type revokeOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"Removes the cookie of the session that sent the request."`
	Body      RevokedSessions
}

func (h *handlers) revoke(ctx context.Context, in *OwnerQuery) (*revokeOutput, error) {
	p := rest.Principal(ctx)
	of, err := h.owner(p, *in)
	if err != nil {
		return nil, err
	}
	ended, aborted, err := h.Store.RevokeLogins(ctx, access.RevokeLoginsParams{
		Namespace: p.Namespace, Owner: of.Key, Object: of.ID(), Actor: p.Actor(),
	})
	if err != nil {
		return nil, err
	}
	h.api.ForgetKey(of.Key)
	out := &revokeOutput{Body: RevokedSessions{ended, aborted}}
	if p.Login != uuid.Nil && of.Key == p.Key {
		out.SetCookie = rest.SessionCookie(ctx, "", 0)
	}
	return out, nil
}
