package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Secrets is the part of the store that has the secrets.
type Secrets interface {
	PutSecret(ctx context.Context, o access.SecretParams) (access.SecretInfo, error)
	Secrets(ctx context.Context, namespace uuid.UUID, after string, limit int) ([]access.SecretInfo, error)
	DeleteSecret(ctx context.Context, namespace uuid.UUID, name, actor string) error
}

func (s *Server) registerSecrets() {
	rest.Register(s.api, rest.Operation{
		ID: "replace-secret", Route: "PUT /secrets/{secret}", Summary: "Store a secret, or replace one",
		Description: "Targets name it in their config as {\"secret\": \"NAME\"}. " +
			"The value is encrypted and can never be read back. Nodes use a new value within 10 seconds. " +
			"For keep_previous_for, requests are also signed with the previous value; 0s: they are not.",
		Role: access.Editor,
	}, s.putSecret)
	rest.Register(s.api, rest.Operation{
		ID: "list-secrets", Route: "GET /secrets", Summary: "List the secrets by name, without their values",
		Role: access.Viewer,
	}, s.listSecrets)
	rest.Register(s.api, rest.Operation{
		ID: "delete-secret", Route: "DELETE /secrets/{secret}", Summary: "Delete a secret",
		Description: "Runs of jobs that use it fail until it exists again.",
		Role:        access.Editor, Status: http.StatusNoContent,
	}, s.deleteSecret)
}

// Secret is a stored secret, without its value.
type Secret struct {
	Name          string     `json:"name" example:"hook-signing"`
	Version       int32      `json:"version" doc:"1 at first, plus one with each new value."`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	UpdatedBy     string     `json:"updated_by"`
	PreviousUntil *time.Time `json:"previous_until,omitempty" doc:"Until then, signatures also use the previous value."`
}

func wireSecret(i access.SecretInfo) Secret {
	return Secret{
		Name: i.Name, Version: i.Version, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, UpdatedBy: i.UpdatedBy,
		PreviousUntil: rest.OptionalTime(i.PreviousUntil),
	}
}

// SecretPath names a secret.
type SecretPath struct {
	Secret string `path:"secret" maxLength:"63" doc:"The secret's name." example:"hook-signing"`
}

// SecretRequest is the value of a secret.
type SecretRequest struct {
	Value string `json:"value" minLength:"1" maxLength:"65536" doc:"The secret. It is never shown again."`

	KeepPreviousFor rest.Duration `json:"keep_previous_for,omitempty" doc:"Also sign with the old value. Default 24h." example:"24h"`
}

type putSecretInput struct {
	SecretPath
	Body SecretRequest
}

type secretOutput struct {
	Body Secret
}

// keepPrevious gives receivers a working day to learn the new value.
const keepPrevious = 24 * time.Hour

func (s *Server) putSecret(ctx context.Context, in *putSecretInput) (*secretOutput, error) {
	keep, err := in.Body.KeepPreviousFor.Parse("keep_previous_for", keepPrevious, "24h")
	if err != nil {
		return nil, err
	}
	p := rest.Principal(ctx)
	info, err := s.opts.Secrets.PutSecret(ctx, access.SecretParams{
		Namespace: p.Namespace, Name: in.Secret, Value: access.Secret{Values: []string{in.Body.Value}},
		KeepPrevious: keep, Actor: p.Actor(),
	})
	if errors.Is(err, access.ErrNoKeyset) {
		return nil, rest.NewProblem("unavailable", access.ErrNoKeyset.Error())
	}
	if err != nil {
		return nil, err
	}
	return &secretOutput{wireSecret(info)}, nil
}

func (s *Server) listSecrets(ctx context.Context, in *rest.PageInput) (*rest.PageOutput[Secret], error) {
	return rest.List[string, access.SecretInfo, Secret]{
		Read: s.opts.Secrets.Secrets, Mark: func(i access.SecretInfo) string { return i.Name }, Wire: wireSecret,
	}.Page(ctx, in)
}

func (s *Server) deleteSecret(ctx context.Context, in *SecretPath) (*struct{}, error) {
	p := rest.Principal(ctx)
	return nil, s.opts.Secrets.DeleteSecret(ctx, p.Namespace, in.Secret, p.Actor())
}
