// Package sessions has the operations of login sessions, with which the web UI authenticates. A browser trades a key for
// a session once, and keeps a cookie that its scripts cannot read. internal/server/rest checks the cookie.
package sessions

import (
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
	Logins(ctx context.Context, namespace, key uuid.UUID) ([]access.Login, error)
	EndLogin(ctx context.Context, p access.Principal) error
	RevokeLogins(ctx context.Context, p access.Principal) (ended int, err error)
}

// Options of the operations.
type Options struct {
	Store   Store
	Code    *Code  // nil: no code works
	Version string // of the node
}

type handlers struct {
	Options
	api *rest.API
}

// Register adds the operations to an API.
func Register(api *rest.API, o Options) {
	h := &handlers{o, api}
	rest.Register(api, rest.Operation{
		ID: "create-login-session", Route: "POST /session", Summary: "Log in", Role: rest.Public,
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
		ID: "list-login-sessions", Route: "GET /sessions", Summary: "List the sessions of the key",
		Role: access.Viewer, Description: "Lists the live login sessions of the key that sends the request, " +
			"or of the key of its session.",
	}, h.list)
	rest.Register(api, rest.Operation{
		ID: "revoke-login-sessions", Route: "POST /sessions:revoke", Summary: "Log out everywhere",
		Role: access.Viewer, Description: "Ends all login sessions of the key that sends the request, " +
			"or of the key of its session. Other nodes accept them for up to 5 seconds.",
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
	Name      string    `json:"name" doc:"The name of the key that logged in."`
	Actor     string    `json:"actor" doc:"How versions and the audit log name the key."`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at" doc:"When the session ends at the latest."`
	Version   string    `json:"version" doc:"The version of the node that answers."`
}

func (h *handlers) session(p access.Principal, l access.Login) LoginSession {
	return LoginSession{
		ID: access.FormatLoginID(l.ID), Namespace: p.NamespaceName, Role: rest.Role(p.Role), Name: p.KeyName,
		Actor: p.Actor(), CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, Version: h.Version,
	}
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
	return &createOutput{
		Location: rest.BasePath + "/session", Body: h.session(p, l),
		SetCookie: rest.SessionCookie(ctx, secret, l.ExpiresAt.Sub(l.CreatedAt)),
	}, nil
}

type getOutput struct {
	Body LoginSession
}

func (h *handlers) get(ctx context.Context, _ *struct{}) (*getOutput, error) {
	p := rest.Principal(ctx)
	all, err := h.Store.Logins(ctx, p.Namespace, p.Key)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.ID == p.Login {
			return &getOutput{h.session(p, l)}, nil
		}
	}
	return nil, noSession()
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

// LoginSessionSummary is one of the sessions of a key.
type LoginSessionSummary struct {
	ID        string    `json:"id"`
	Name      string    `json:"name" doc:"The name of the key that logged in."`
	Client    string    `json:"client" doc:"How the browser described itself (User-Agent)."`
	CreatedAt time.Time `json:"created_at"`
	UsedAt    time.Time `json:"used_at" doc:"When it was last used, accurate to a minute."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it ends at the latest."`
	Current   bool      `json:"current" doc:"Whether this session sends the request."`
}

// LoginSessionList lists the sessions of a key.
type LoginSessionList struct {
	Items []LoginSessionSummary `json:"items" doc:"The newest first, at most 20."`
}

type listOutput struct {
	Body LoginSessionList
}

func (h *handlers) list(ctx context.Context, _ *struct{}) (*listOutput, error) {
	p := rest.Principal(ctx)
	all, err := h.Store.Logins(ctx, p.Namespace, p.Key)
	if err != nil {
		return nil, err
	}
	out := &listOutput{}
	out.Body.Items = rest.Map(all, func(l access.Login) LoginSessionSummary {
		return LoginSessionSummary{
			ID: access.FormatLoginID(l.ID), Name: p.KeyName, Client: l.Client, CreatedAt: l.CreatedAt,
			UsedAt: l.UsedAt, ExpiresAt: l.ExpiresAt, Current: l.ID == p.Login,
		}
	})
	return out, nil
}

// RevokedSessions says how many sessions were ended.
type RevokedSessions struct {
	Revoked int `json:"revoked" doc:"How many sessions have ended, including the one that sent the request."`
}

type revokeOutput struct {
	SetCookie string `header:"Set-Cookie" doc:"Removes the cookie of the session that sent the request."`
	Body      RevokedSessions
}

func (h *handlers) revoke(ctx context.Context, _ *struct{}) (*revokeOutput, error) {
	p := rest.Principal(ctx)
	ended, err := h.Store.RevokeLogins(ctx, p)
	if err != nil {
		return nil, err
	}
	h.api.ForgetKey(p.Key)
	out := &revokeOutput{Body: RevokedSessions{ended}}
	if p.Login != uuid.Nil {
		out.SetCookie = rest.SessionCookie(ctx, "", 0)
	}
	return out, nil
}
