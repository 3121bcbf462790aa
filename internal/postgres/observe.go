package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// countSkips reports the ranges that a transaction writes into history. A range without a count counts as one.
func countSkips(tx pgx.Tx, queue int32, skips []job.Skip) {
	for _, s := range skips {
		store.LedgerOf(tx).Ended(queue, job.EndedSkipped, s.Reason, max(s.Count, 1))
	}
}

// SchemaVersion reads the version of the schema. It also shows that the database responds.
func (a *Admin) SchemaVersion(ctx context.Context) (version int64, err error) {
	if err := a.db.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version); err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}
