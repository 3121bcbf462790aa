// Package overview has the operations that show numbers about a whole namespace: the overview and statistics.
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
	Overview(ctx context.Context, namespace uuid.UUID) (job.Overview, error)
	RecentRuns(ctx context.Context, namespace uuid.UUID, jobs []job.Job) ([]job.Recent, error)
	SummarizeDeadLetters(ctx context.Context, q job.DeadQueryBy) (job.DeadSummary, error)
}

// Cluster is the part of the store that knows the live runs of all namespaces.
type Cluster interface {
	LiveRuns(ctx context.Context) (job.Live, error)
}

// Loads is the part of the store that knows what is due.
type Loads interface {
	Load(ctx context.Context, p job.LoadParams) (job.Load, error)
}

// Handlers serve the operations.
type Handlers struct {
	Views   Views
	Cluster Cluster
	Load    Loads
	// Elapsed is a clock that never goes back, for the age of snapshots. Default: clock.Elapsed.
	Elapsed func() time.Duration

	snapshots snapshots
}

// Register adds the operations to an API.
func Register(api *rest.API, h *Handlers) {
	h.snapshots.init(h.Elapsed)
	rest.Register(api, rest.Operation{
		ID: "get-overview", Route: "GET /overview", Summary: "Get how the namespace is doing",
		Description: "Late runs, dead letters, pauses and all that needs someone are read from the ledger; numbers that " +
			"are statistics say so. Each node reads a namespace at most once a second, however many clients there are: " +
			"send the ETag of the last response as If-None-Match.",
		Role: access.Viewer, Describe: rest.Conditional[Overview](),
	}, h.getOverview)
	rest.Register(api, rest.Operation{
		ID: "get-stats", Route: "GET /stats", Summary: "Get what happened in each minute or hour",
		Description: "Statistics, not the ledger: nodes count in memory and write every 5 seconds, so a node that is " +
			"killed loses its last seconds. They are kept for 14 days. Quantiles are estimated from a histogram.",
		Role: access.Viewer,
	}, h.getStats)
}
