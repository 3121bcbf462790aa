package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/store"
)

// AuditRefusals writes an entry for each refusal to the audit log of a namespace, all or none.
func (a *API) AuditRefusals(ctx context.Context, namespace uuid.UUID, all []access.Refusal) error {
	return a.db.Tx(ctx, store.In(namespace), "record refused requests", func(tx pgx.Tx) error {
		for _, r := range all {
			entry := auditParams{namespace, itself, "request.refuse", "other keys"}
			if r.Principal.Key != uuid.Nil {
				entry.actor, entry.object = r.Principal.Actor(), r.Principal.ID()
			}
			err := a.log.write(access.WithOrigin(ctx, r.Origin), tx, entry, struct {
				Role       access.Role `json:"role,omitempty"`
				Count      int         `json:"count"`
				Operations []string    `json:"operations"`
			}{r.Principal.Role, r.Count, r.Operations})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
