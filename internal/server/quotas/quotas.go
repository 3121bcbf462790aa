// Package quotas has the operation on the quotas of a namespace. Only the operator of the cluster sets them.
package quotas

import (
	"context"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Store is the part of the store that has the quotas.
type Store interface {
	Quotas(ctx context.Context, namespace uuid.UUID) ([]access.QuotaUse, error)
}

// Register adds the operation to the API.
func Register(api *rest.API, store Store) {
	h := &handlers{store}
	rest.Register(api, rest.Operation{
		ID: "list-quotas", Route: "GET /quotas", Summary: "List the quotas and how much of them is used",
		Description: "The operator of the cluster sets quotas, with belfry namespace quota. No key can. " +
			"A request that would exceed a quota gets the problem quota_exceeded and changes nothing. " +
			"Runs over the quota of runs per minute wait.",
		Role: access.Viewer,
	}, h.list)
}

type handlers struct{ store Store }

// Quota is something that a namespace may have a limited amount of.
type Quota struct {
	Name  Name   `json:"name" doc:"What is limited."`
	Limit *int64 `json:"limit,omitempty" doc:"The maximum. Missing: there is no quota."`
	Used  *int64 `json:"used,omitempty" doc:"How much is used now. Missing: not known."`
}

// Name is an access.Quota.
type Name = rest.Enum[names]

type names struct{}

func (names) Name() string { return "QuotaName" }

func (names) Values() []any {
	return rest.Map(access.Quotas, func(q access.Quota) any { return string(q) })
}

// QuotaList lists the quotas.
type QuotaList struct {
	Items []Quota `json:"items"`
}

type output struct {
	Body QuotaList
}

func (h *handlers) list(ctx context.Context, _ *struct{}) (*output, error) {
	found, err := h.store.Quotas(ctx, rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	out := &output{}
	out.Body.Items = rest.Map(found, func(q access.QuotaUse) Quota { return Quota{Name(q.Quota), q.Limit, q.Used} })
	return out, nil
}
