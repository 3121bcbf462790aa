package server

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Keys is the part of the store that has the API keys.
type Keys interface {
	rest.Keys
	CreateKey(ctx context.Context, o access.KeyParams) (access.APIKey, string, error)
	Keys(ctx context.Context, namespace uuid.UUID) ([]access.APIKey, error)
	RevokeKey(ctx context.Context, namespace, id uuid.UUID, actor string) (aborted int, err error)
}

func (s *Server) registerKeys() {
	rest.Register(s.api, rest.Operation{
		ID: "create-key", Route: "POST /keys", Summary: "Create a key", Role: access.Admin,
		Description: "The roles viewer, operator, editor and admin each include the rights of the one before. " +
			"worker may only claim the runs of its queues and report on them.",
		Status: http.StatusCreated, Example: `{"name":"ci","role":"editor","expires_in":"90d"}`,
	}, s.createKey)
	rest.Register(s.api, rest.Operation{
		ID: "list-keys", Route: "GET /keys", Summary: "List the keys", Role: access.Admin,
	}, s.listKeys)
	rest.Register(s.api, rest.Operation{
		ID: "revoke-key", Route: "POST /keys/{key}:revoke", Summary: "Revoke a key", Role: access.Admin,
		Description: "Operations that the key began are aborted.",
	}, s.revokeKey)
	rest.Register(s.api, rest.Operation{
		ID: "get-self", Route: "GET /self", Summary: "Get the key, or the person, that sends the request", Role: access.Viewer,
	}, s.getSelf)
}

// Role is what a key may do.
type Role = rest.Role

// Key is an API key, without its secret.
type Key struct {
	ID        string     `json:"id" doc:"Id of the key. Not secret."`
	Name      string     `json:"name"`
	Role      Role       `json:"role"`
	Queues    []string   `json:"queues,omitempty" doc:"For the role worker: the queues it may serve."`
	Prefix    string     `json:"prefix" doc:"Beginning of the secret, to distinguish keys."`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

func wireKey(k access.APIKey) Key {
	return Key{
		ID: access.FormatKeyID(k.ID), Name: k.Name, Role: Role(k.Role), Queues: k.Queues, Prefix: k.Prefix,
		CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt,
		ExpiresAt: rest.OptionalTime(k.ExpiresAt), RevokedAt: rest.OptionalTime(k.RevokedAt),
	}
}

// KeyRequest describes a new key.
type KeyRequest struct {
	Name      string         `json:"name" minLength:"1" maxLength:"200" doc:"What it is for." example:"ci"`
	Role      Role           `json:"role" doc:"The rights of the key."`
	Queues    []string       `json:"queues,omitempty" maxItems:"100" doc:"Queues of a worker. They need not exist."`
	ExpiresIn *rest.Duration `json:"expires_in,omitempty" doc:"Time until it expires, up to 10 years. Default: never." example:"90d"`
}

// life returns how long the key works. 0: it does not expire.
func (r *KeyRequest) life() (time.Duration, error) {
	if r.ExpiresIn == nil {
		return 0, nil
	}
	life, err := r.ExpiresIn.Parse("expires_in", 0, "90d")
	if err == nil && life < access.MinKeyLife {
		err = access.KeyLifeProblem()
	}
	return life, err
}

type createKeyInput struct {
	Body KeyRequest
}

// NewKey is a new key with its secret.
type NewKey struct {
	Key
	Secret string `json:"secret" doc:"The key itself. It is shown only once."`
}

type createKeyOutput struct {
	Body NewKey
}

func (s *Server) createKey(ctx context.Context, in *createKeyInput) (*createKeyOutput, error) {
	expiresIn, err := in.Body.life()
	if err != nil {
		return nil, err
	}
	p := rest.Principal(ctx)
	k, secret, err := s.opts.Keys.CreateKey(ctx, access.KeyParams{
		Namespace: p.Namespace, Name: in.Body.Name, Role: access.Role(in.Body.Role), Queues: in.Body.Queues,
		ExpiresIn: expiresIn, Actor: p.Actor(),
	})
	if err != nil {
		return nil, err
	}
	out := &createKeyOutput{}
	out.Body.Key, out.Body.Secret = wireKey(k), secret
	return out, nil
}

// KeyList lists the keys.
type KeyList struct {
	Items []Key `json:"items" doc:"The newest first, at most 1,000."`
}

type listKeysOutput struct {
	Body KeyList
}

func (s *Server) listKeys(ctx context.Context, _ *struct{}) (*listKeysOutput, error) {
	keys, err := s.opts.Keys.Keys(ctx, rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	out := &listKeysOutput{}
	out.Body.Items = rest.Map(keys, wireKey)
	return out, nil
}

// KeyPath names a key.
type KeyPath struct {
	Key string `path:"key" maxLength:"40" doc:"The key's id, key_…, not its secret."`
}

// RevokedKey says what ended with a key.
type RevokedKey struct {
	Aborted int `json:"aborted_operations" doc:"How many operations that the key began were aborted."`
}

type revokeKeyOutput struct {
	Body RevokedKey
}

func (s *Server) revokeKey(ctx context.Context, in *KeyPath) (*revokeKeyOutput, error) {
	id, err := access.ParseKeyID(in.Key)
	if err != nil {
		return nil, rest.NewProblem("not_found", "there is no such key in this namespace")
	}
	p := rest.Principal(ctx)
	aborted, err := s.opts.Keys.RevokeKey(ctx, p.Namespace, id, p.Actor())
	if err != nil {
		return nil, err
	}
	s.api.ForgetKey(id)
	return &revokeKeyOutput{RevokedKey{aborted}}, nil
}

// Self is who sends the request.
type Self struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key" doc:"The id of the key. Empty: a person logged in through an identity provider."`
	Name      string `json:"name" doc:"The name of the key or the person."`
	Role      Role   `json:"role"`
	Actor     string `json:"actor" doc:"How versions and the audit log name the key or the person."`
	Subject   string `json:"subject,omitempty" doc:"The identity provider's id of the person. Missing: a key."`
}

type getSelfOutput struct {
	Body Self
}

func (s *Server) getSelf(ctx context.Context, _ *struct{}) (*getSelfOutput, error) {
	p := rest.Principal(ctx)
	out := &getSelfOutput{Self{
		Namespace: p.NamespaceName, Name: p.KeyName, Role: Role(p.Role), Actor: p.Actor(), Subject: p.Person.Subject,
	}}
	if !p.IsPerson() {
		out.Body.Key = access.FormatKeyID(p.Key)
	}
	return out, nil
}
