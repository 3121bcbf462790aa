// Package brokers has the operation on the brokers that a namespace may use. Only the operator of the cluster sets them.
package brokers

import (
	"context"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Store is the part of the store that has the brokers.
type Store interface {
	Brokers(ctx context.Context, namespace uuid.UUID) ([]access.BrokerInfo, error)
}

// Register adds the operation to the API.
func Register(api *rest.API, store Store) {
	h := &handlers{store}
	rest.Register(api, rest.Operation{
		ID: "list-brokers", Route: "GET /brokers", Summary: "List the brokers that jobs may name",
		Description: "The operator of the cluster sets brokers, and the namespaces that may use them, with " +
			"belfry broker set. No key can. A job of the same kind names one in its target: {\"broker\": \"NAME\"}.",
		Role: access.Viewer,
	}, h.list)
}

type handlers struct{ store Store }

// Broker is a broker that jobs of the namespace may name.
type Broker struct {
	Name string `json:"name" example:"orders"`
	Kind string `json:"kind" doc:"The kind of targets that it is for." example:"kafka"`
}

// BrokerList lists brokers.
type BrokerList struct {
	Items []Broker `json:"items"`
}

type output struct {
	Body BrokerList
}

func (h *handlers) list(ctx context.Context, _ *struct{}) (*output, error) {
	found, err := h.store.Brokers(ctx, rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	out := &output{}
	out.Body.Items = rest.Map(found, func(b access.BrokerInfo) Broker { return Broker(b) })
	return out, nil
}
