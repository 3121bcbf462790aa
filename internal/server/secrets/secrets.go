// Package secrets has the operations on the secrets that users store for their targets.
package secrets

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Store is the part of the store that has the secrets.
type Store interface {
	PutSecret(ctx context.Context, o access.SecretParams) (access.SecretInfo, error)
	BindSecret(ctx context.Context, o access.BindParams) (access.SecretInfo, error)
	Secrets(ctx context.Context, namespace uuid.UUID, after string, limit int) ([]access.SecretInfo, error)
	DeleteSecret(ctx context.Context, o access.DeleteSecretParams) error
}

type handlers struct{ store Store }

// Register adds the operations to the API.
func Register(api *rest.API, store Store) {
	h := &handlers{store}
	rest.Register(api, rest.Operation{
		ID: "replace-secret", Route: "PUT /secrets/{secret}", Summary: "Store a secret, or replace one",
		Description: "Targets name it in their config as {\"secret\": \"NAME\"}. " +
			"The value is encrypted, and no operation returns it. Nodes use a new value within 10 seconds. " +
			"For keep_previous_for, requests are also signed with the previous value; 0s: they are not. " +
			"Without hosts and kinds, a new secret can be used by every job, so everyone who may edit jobs can send it " +
			"anywhere. Only an admin changes hosts and kinds of a secret that exists.",
		Role: access.Editor,
	}, h.put)
	rest.Register(api, rest.Operation{
		ID: "update-secret", Route: "PATCH /secrets/{secret}", Summary: "Change where a secret may be used",
		Description: "Fields that are left out stay as they are. An empty list allows all. " +
			"Runs of jobs that use the secret elsewhere fail from then on, within 10 seconds.",
		Role: access.Admin,
	}, h.bind)
	rest.Register(api, rest.Operation{
		ID: "list-secrets", Route: "GET /secrets", Summary: "List the secrets by name, without their values",
		Role: access.Viewer,
	}, h.list)
	rest.Register(api, rest.Operation{
		ID: "delete-secret", Route: "DELETE /secrets/{secret}", Summary: "Delete a secret",
		Description: "Runs of jobs that use it fail until it exists again. " +
			"Only an admin deletes a secret with hosts or kinds.",
		Role: access.Editor, Status: http.StatusNoContent,
	}, h.delete)
}

// Secret is a stored secret, without its value.
type Secret struct {
	Name          string     `json:"name" example:"hook-signing"`
	Version       int32      `json:"version" doc:"Plus one with each new value. A name never has the same version twice."`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	UpdatedBy     string     `json:"updated_by"`
	PreviousUntil *time.Time `json:"previous_until,omitempty" doc:"Until then, signatures also use the previous value."`
	Hosts         []string   `json:"hosts,omitempty" doc:"The hosts that may receive it. Absent: all."`
	Kinds         []string   `json:"kinds,omitempty" doc:"The kinds of targets that may use it. Absent: all."`
}

func wire(i access.SecretInfo) Secret {
	return Secret{
		Name: i.Name, Version: i.Version, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, UpdatedBy: i.UpdatedBy,
		PreviousUntil: rest.OptionalTime(i.PreviousUntil), Hosts: i.Binding.Hosts, Kinds: i.Binding.Kinds,
	}
}

// SecretPath names a secret.
type SecretPath struct {
	Secret string `path:"secret" maxLength:"63" doc:"The secret's name." example:"hook-signing"`
}

// SecretBinding says where a secret may be used.
type SecretBinding struct {
	Hosts *[]string `json:"hosts,omitempty" maxItems:"100"`
	Kinds *[]string `json:"kinds,omitempty" maxItems:"4"`
}

// Descriptions implements rest.Described.
func (SecretBinding) Descriptions() map[string]string {
	return map[string]string{
		"hosts": "The hosts that may receive the secret: names such as hooks.example.com, *.example.com for all names below " +
			"example.com, or addresses. A command and a broker have no host. Empty: all.",
		"kinds": "The kinds of targets that may use the secret: http, http_url, message_header, command. Empty: all. " +
			"A secret with hosts or kinds is part of a URL only if kinds has http_url, " +
			"and in a header of a message only if kinds has message_header.",
	}
}

// SecretRequest is the value of a secret, and where it may be used.
type SecretRequest struct {
	Value string `json:"value" minLength:"1" maxLength:"65536" doc:"The secret. It is never shown again."`

	KeepPreviousFor rest.Duration `json:"keep_previous_for,omitempty" doc:"Also sign with the old value. Default 24h." example:"24h"`
	SecretBinding
}

type putInput struct {
	SecretPath
	Body SecretRequest
}

type output struct {
	Body Secret
}

// keepPrevious gives receivers a working day to learn the new value.
const keepPrevious = 24 * time.Hour

func (h *handlers) put(ctx context.Context, in *putInput) (*output, error) {
	keep, err := in.Body.KeepPreviousFor.Parse("keep_previous_for", keepPrevious, "24h")
	if err != nil {
		return nil, err
	}
	p := rest.Principal(ctx)
	info, err := h.store.PutSecret(ctx, access.SecretParams{
		Namespace: p.Namespace, Name: in.Secret, Value: access.Secret{Values: []string{in.Body.Value}},
		KeepPrevious: keep, Change: in.Body.change(), Admin: isAdmin(p), Actor: p.Actor(),
	})
	switch {
	case errors.Is(err, access.ErrNoKeyset):
		return nil, rest.NewProblem("unavailable", access.ErrNoKeyset.Error())
	case err != nil:
		return nil, explain(err)
	}
	return &output{wire(info)}, nil
}

func (b SecretBinding) change() access.BindingChange { return access.BindingChange(b) }

func isAdmin(p access.Principal) bool { return p.Role.May(access.Admin) }

func explain(err error) error {
	if errors.Is(err, access.ErrNotAdmin) {
		return rest.NewProblem("forbidden", access.ErrNotAdmin.Error())
	}
	return err
}

type bindInput struct {
	SecretPath
	Body SecretBinding
}

func (h *handlers) bind(ctx context.Context, in *bindInput) (*output, error) {
	p := rest.Principal(ctx)
	info, err := h.store.BindSecret(ctx, access.BindParams{
		Namespace: p.Namespace, Name: in.Secret, Change: in.Body.change(), Actor: p.Actor(),
	})
	if err != nil {
		return nil, err
	}
	return &output{wire(info)}, nil
}

func (h *handlers) list(ctx context.Context, in *rest.PageInput) (*rest.PageOutput[Secret], error) {
	return rest.List[string, access.SecretInfo, Secret]{
		Read: h.store.Secrets, Mark: func(i access.SecretInfo) string { return i.Name }, Wire: wire,
	}.Page(ctx, in)
}

func (h *handlers) delete(ctx context.Context, in *SecretPath) (*struct{}, error) {
	p := rest.Principal(ctx)
	return nil, explain(h.store.DeleteSecret(ctx, access.DeleteSecretParams{
		Namespace: p.Namespace, Name: in.Secret, Admin: isAdmin(p), Actor: p.Actor(),
	}))
}
