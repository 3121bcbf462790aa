package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// CreateHistory creates the tables of history and of output for today and the days ahead, by the database's clock. Any
// number of nodes may call it at the same time.
func (e *Engine) CreateHistory(ctx context.Context, ahead int) error {
	if _, err := e.db.Exec(ctx, `SELECT belfry_create_history($1), belfry_create_output($1)`, ahead); err != nil {
		return fmt.Errorf("create the days of history: %w", err)
	}
	return nil
}

// DropHistory drops the days that are older than the retention, and returns their tables.
func (e *Engine) DropHistory(ctx context.Context, keep time.Duration) (dropped []string, err error) {
	rows, err := e.db.Query(ctx, `SELECT belfry_drop_history($1) UNION ALL SELECT belfry_drop_output($1)`, keep)
	if err != nil {
		return nil, fmt.Errorf("drop days of history: %w", err)
	}
	if dropped, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, fmt.Errorf("drop days of history: %w", err)
	}
	return dropped, nil
}
