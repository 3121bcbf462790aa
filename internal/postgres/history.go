package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// CreateHistory creates the tables of history and of output for today and the days ahead, by the database's clock. Any
// number of nodes may call it at the same time. No other transaction waits for it. It returns job.ErrInUse if one locks the
// history.
func (e *Engine) CreateHistory(ctx context.Context, ahead int) error {
	_, err := e.db.Exec(ctx, `SELECT belfry_create_history($1)`, ahead)
	switch {
	case Code(err) == "55P03": // lock_not_available
		return fmt.Errorf("create the days of history: %w: %w", job.ErrInUse, err)
	case err != nil:
		return fmt.Errorf("create the days of history: %w", err)
	}
	return nil
}

// DropHistory drops the days that are older than the retention, and returns their tables. It returns job.ErrInUse if
// other transactions use the history, for example a backup: completions would wait for a DROP that waits for those.
func (e *Engine) DropHistory(ctx context.Context, keep time.Duration) (dropped []string, err error) {
	for {
		var table string // each in a transaction of its own, which locks the history for moments only
		err := e.db.QueryRow(ctx, `SELECT belfry_drop_history($1) WHERE belfry_clock_trusted()`, keep).Scan(&table)
		switch {
		case noRows(err):
			return dropped, nil
		case Code(err) == "55P03": // lock_not_available
			return dropped, fmt.Errorf("drop days of history: %w: %w", job.ErrInUse, err)
		case err != nil:
			return dropped, fmt.Errorf("drop days of history: %w", err)
		}
		dropped = append(dropped, table)
	}
}
