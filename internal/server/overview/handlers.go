// Package overview has the operations that show numbers about a whole namespace: statistics.
package overview

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Views is the part of the store that has the numbers.
type Views interface {
	// Now reads the clock of the database.
	Now(ctx context.Context, namespace uuid.UUID) (time.Time, error)
	Stats(ctx context.Context, p job.StatParams) (job.Stats, error)
}

// Handlers serve the operations.
type Handlers struct {
	Views Views
}

// Register adds the operations to an API.
func Register(api *rest.API, h *Handlers) {
	rest.Register(api, rest.Operation{
		ID: "get-stats", Route: "GET /stats", Summary: "Get what happened in each minute or hour",
		Description: "Statistics, not the ledger: nodes count in memory and write every 5 seconds, so a node that is " +
			"killed loses its last seconds. They are kept for 14 days. Quantiles are estimated from a histogram.",
		Role: access.Viewer,
	}, h.getStats)
}
