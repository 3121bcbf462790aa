package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Secrets is the store, as secrets see it.
type Secrets interface {
	PutSecret(ctx context.Context, o access.SecretParams) (access.SecretInfo, error)
	Secrets(ctx context.Context, namespace uuid.UUID, after string, limit int) ([]access.SecretInfo, error)
	DeleteSecret(ctx context.Context, namespace uuid.UUID, name, actor string) error
}

func (s *Server) registerSecrets() {
	put := operation("put-secret", http.MethodPut, "/secrets/{secret}", "Store a secret, or replace one", access.Editor)
	put.Description = "Targets name it in their config as {\"secret\": \"NAME\"}. The value is encrypted and can never be read back. " +
		"Nodes use a new value within 10 seconds."
	huma.Register(s.api, put, s.putSecret)
	list := operation("list-secrets", http.MethodGet, "/secrets", "List the secrets by name, without their values", access.Viewer)
	huma.Register(s.api, list, s.listSecrets)
	remove := operation("delete-secret", http.MethodDelete, "/secrets/{secret}", "Delete a secret", access.Editor)
	remove.Description = "Runs of jobs that name it fail until it is there again."
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, remove, s.deleteSecret)
}

// Secret is a stored secret, without its value.
type Secret struct {
	Name          string     `json:"name" example:"hook-signing"`
	Version       int32      `json:"version" doc:"From 1; one more with each new value."`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	UpdatedBy     string     `json:"updated_by"`
	PreviousUntil *time.Time `json:"previous_until,omitempty" doc:"Until then the value before it is used too, where two can be: signatures."`
}

func wireSecret(i access.SecretInfo) Secret {
	return Secret{Name: i.Name, Version: i.Version, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, UpdatedBy: i.UpdatedBy, PreviousUntil: timeOrNil(i.PreviousUntil)}
}

// SecretPath names a secret.
type SecretPath struct {
	Secret string `path:"secret" maxLength:"63" doc:"The secret's name." example:"hook-signing"`
}

type putSecretInput struct {
	SecretPath
	Body struct {
		Value           string   `json:"value" minLength:"1" maxLength:"65536" doc:"The secret itself. It is never shown again."`
		KeepPreviousFor Duration `json:"keep_previous_for,omitempty" doc:"How long the value before it is used too, where two can be: a request is signed with both. Default 24h; 0s: not at all." example:"24h"`
	}
}

type secretOutput struct {
	Body Secret
}

// keepPrevious is a working day for receivers to learn the new value.
const keepPrevious = 24 * time.Hour

func (s *Server) putSecret(ctx context.Context, in *putSecretInput) (*secretOutput, error) {
	keep := job.Duration(keepPrevious)
	if in.Body.KeepPreviousFor != "" {
		if err := keep.UnmarshalText([]byte(in.Body.KeepPreviousFor)); err != nil {
			return nil, s.problem(ctx, &job.Problem{Field: "keep_previous_for", Problem: "it is not a duration", Fix: "write for example 24h"})
		}
	}
	p := principal(ctx)
	info, err := s.opts.Secrets.PutSecret(ctx, access.SecretParams{
		Namespace: p.Namespace, Name: in.Secret, Value: access.Secret{Values: []string{in.Body.Value}}, KeepPrevious: time.Duration(keep), Actor: p.Actor(),
	})
	if errors.Is(err, access.ErrNoKeyset) {
		return nil, newProblem("unavailable", access.ErrNoKeyset.Error())
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return &secretOutput{wireSecret(info)}, nil
}

type listSecretsOutput struct {
	Body struct {
		Items         []Secret `json:"items"`
		NextPageToken string   `json:"next_page_token,omitempty" doc:"There may be more: send it as page_token. Left out: there is no more."`
	}
}

func (s *Server) listSecrets(ctx context.Context, in *LedgerPage) (*listSecretsOutput, error) {
	var after string
	if err := in.after(&after); err != nil {
		return nil, s.problem(ctx, err)
	}
	found, err := s.opts.Secrets.Secrets(ctx, principal(ctx).Namespace, after, in.PageSize+1)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listSecretsOutput{}
	out.Body.Items, out.Body.NextPageToken = paged(found, in.PageSize, func(i access.SecretInfo) any { return i.Name }, wireSecret)
	return out, nil
}

func (s *Server) deleteSecret(ctx context.Context, in *SecretPath) (*struct{}, error) {
	p := principal(ctx)
	if err := s.opts.Secrets.DeleteSecret(ctx, p.Namespace, in.Secret, p.Actor()); err != nil {
		return nil, s.problem(ctx, err)
	}
	return nil, nil
}
