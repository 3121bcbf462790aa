package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Key is an API key, without its secret.
type Key struct {
	ID        string     `json:"id" doc:"Its id, which is no secret."`
	Name      string     `json:"name"`
	Role      string     `json:"role" enum:"viewer,operator,editor,admin,worker"`
	Queues    []string   `json:"queues,omitempty" doc:"Of a worker's key: the queues that it is good for."`
	Prefix    string     `json:"prefix" doc:"The beginning of the secret, to tell keys apart."`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

func wireKey(k access.APIKey) Key {
	out := Key{ID: job.FormatKeyID(k.ID), Name: k.Name, Role: string(k.Role), Queues: k.Queues, Prefix: k.Prefix, CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = &k.ExpiresAt
	}
	if !k.RevokedAt.IsZero() {
		out.RevokedAt = &k.RevokedAt
	}
	return out
}

func (s *Server) registerKeys() {
	create := operation("create-key", http.MethodPost, "/keys", "Create a key", access.Admin)
	create.DefaultStatus = http.StatusCreated
	huma.Register(s.api, create, s.createKey)
	huma.Register(s.api, operation("list-keys", http.MethodGet, "/keys", "List the keys", access.Admin), s.listKeys)
	revoke := operation("revoke-key", http.MethodDelete, "/keys/{key}", "Revoke a key", access.Admin)
	revoke.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, revoke, s.revokeKey)
	huma.Register(s.api, operation("get-self", http.MethodGet, "/self", "Tell who the key is", access.Viewer), s.getSelf)
}

type createKeyInput struct {
	Body struct {
		Name      string   `json:"name" minLength:"1" maxLength:"200" doc:"What it is for." example:"ci"`
		Role      string   `json:"role" enum:"viewer,operator,editor,admin,worker" doc:"What it may do. Each role may all that the ones before it may; worker may have the runs of its queues, report on them, and nothing else."`
		Queues    []string `json:"queues,omitempty" maxItems:"100" doc:"Of a worker's key: the queues that it is good for. They need not exist yet."`
		ExpiresIn Duration `json:"expires_in,omitempty" doc:"How long it works. Default: until it is revoked." example:"90d"`
	}
}

type createKeyOutput struct {
	Body struct {
		Key
		Secret string `json:"secret" doc:"The key itself. It is shown this once and cannot be found out later."`
	}
}

func (s *Server) createKey(ctx context.Context, in *createKeyInput) (*createKeyOutput, error) {
	var life job.Duration
	if in.Body.ExpiresIn != "" {
		if err := life.UnmarshalText([]byte(in.Body.ExpiresIn)); err != nil {
			return nil, s.problem(ctx, &job.Problem{Field: "expires_in", Problem: "it is not a duration", Fix: "write for example 90d"})
		}
	}
	p := principal(ctx)
	k, secret, err := s.opts.Keys.CreateKey(ctx, access.KeyParams{
		Namespace: p.Namespace, Name: in.Body.Name, Role: access.Role(in.Body.Role), Queues: in.Body.Queues, ExpiresIn: time.Duration(life), Actor: p.Actor(),
	})
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &createKeyOutput{}
	out.Body.Key, out.Body.Secret = wireKey(k), secret
	return out, nil
}

type listKeysOutput struct {
	Body struct {
		Items []Key `json:"items" doc:"The newest first, at most 1,000."`
	}
}

func (s *Server) listKeys(ctx context.Context, _ *struct{}) (*listKeysOutput, error) {
	keys, err := s.opts.Keys.Keys(ctx, principal(ctx).Namespace)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listKeysOutput{}
	out.Body.Items = make([]Key, len(keys))
	for i, k := range keys {
		out.Body.Items[i] = wireKey(k)
	}
	return out, nil
}

// KeyPath names a key.
type KeyPath struct {
	Key string `path:"key" maxLength:"40" doc:"The key's id, key_…, not its secret."`
}

func (s *Server) revokeKey(ctx context.Context, in *KeyPath) (*struct{}, error) {
	id, err := job.ParseKeyID(in.Key)
	if err != nil {
		return nil, newProblem("not_found", "there is no such key in this namespace")
	}
	p := principal(ctx)
	if err := s.opts.Keys.RevokeKey(ctx, p.Namespace, id, p.Actor()); err != nil {
		return nil, s.problem(ctx, err)
	}
	s.keys.forget(id)
	return nil, nil
}

type getSelfOutput struct {
	Body struct {
		Namespace string `json:"namespace"`
		Key       string `json:"key" doc:"The id of the key."`
		Name      string `json:"name" doc:"The name of the key."`
		Role      string `json:"role" enum:"viewer,operator,editor,admin,worker"`
	}
}

func (s *Server) getSelf(ctx context.Context, _ *struct{}) (*getSelfOutput, error) {
	p := principal(ctx)
	out := &getSelfOutput{}
	out.Body.Namespace, out.Body.Key, out.Body.Name, out.Body.Role = p.NamespaceName, job.FormatKeyID(p.Key), p.KeyName, string(p.Role)
	return out, nil
}
