package sessions

import (
	"context"
	"errors"
	"slices"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// SwitchRequest names a namespace.
type SwitchRequest struct {
	Namespace string `json:"namespace" minLength:"1" maxLength:"63" doc:"One of the namespaces of GET /api/v1/session."`
}

type switchInput struct {
	Body SwitchRequest
}

// change replaces the session of a person by one in another namespace. A session belongs to one namespace, so that
// row-level security covers it.
func (h *handlers) change(ctx context.Context, in *switchInput) (*createOutput, error) {
	p := rest.Principal(ctx)
	if !p.IsPerson() {
		return nil, rest.NewProblem("conflict", "a key has one namespace; log in with a key of the other namespace")
	}
	old, err := h.current(ctx, p)
	if err != nil {
		return nil, err
	}
	all, err := h.namespaces(ctx, p)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(n access.Principal) bool { return n.NamespaceName == in.Body.Namespace })
	if i < 0 {
		return nil, rest.NewProblem("forbidden", "none of your groups has a role in this namespace, or it does not exist")
	}
	l, secret, err := h.Store.CreateLogin(ctx, access.LoginParams{
		Principal: all[i], Client: rest.PeerOf(ctx).UserAgent, Until: old.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	// It may have ended meanwhile, also because the new one was one too many.
	if err := h.Store.EndLogin(ctx, p); err != nil && !errors.Is(err, job.ErrNotFound) {
		return nil, err
	}
	h.api.ForgetKey(p.Key)
	return h.created(ctx, all[i], l, secret)
}
