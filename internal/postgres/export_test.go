package postgres

import (
	"context"
	"io/fs"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// SomeLiveRuns is LiveRuns of a table with too many.
func (a *Admin) SomeLiveRuns(ctx context.Context, n int) (job.Live, error) {
	return a.someLiveRuns(ctx, n)
}

func init() { liveTime, ownTime = "1min", "1min" }

// LiveRunsOfFew is LiveRunsOf with lower bounds.
func (a *Admin) LiveRunsOfFew(ctx context.Context, namespace uuid.UUID, jobs, runs int64) (job.Live, error) {
	return a.liveRunsOf(ctx, namespace, jobs, runs)
}

// BoundLoads lowers the bounds of loads, so that few jobs are too many.
func (a *API) BoundLoads(rows, sample, cursors int) { a.loads = loadBounds{rows, sample, cursors} }

// MigrateFiles is Migrate of a program with other migrations.
func MigrateFiles(ctx context.Context, url string, files fs.FS, p MigrateParams) (int, error) {
	return migrate(ctx, url, files, p)
}

// ReadSchemaOf is ReadSchema of a program with other migrations.
func ReadSchemaOf(ctx context.Context, url string, files fs.FS) (Schema, error) {
	return readSchema(ctx, url, files)
}
