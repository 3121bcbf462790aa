package keep

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// CreateHistory creates the tables of history and of output for today and the days ahead, by the database's clock. Any
// number of nodes may call it at the same time. No other transaction waits for it. It returns job.ErrInUse if one locks the
// history.
func (s *Store) CreateHistory(ctx context.Context, ahead int) error {
	_, err := s.db.Exec(ctx, `SELECT belfry_create_history($1)`, ahead)
	switch {
	case store.Code(err) == store.LockNotAvailable:
		return fmt.Errorf("create the days of history: %w: %w", job.ErrInUse, err)
	case err != nil:
		return fmt.Errorf("create the days of history: %w", err)
	}
	return nil
}

// DropHistory drops the days that are older than the retention, and returns their tables. It returns job.ErrInUse if other
// transactions use the history, for example a backup: completions would wait for a DROP that waits for those.
func (s *Store) DropHistory(ctx context.Context, keep time.Duration) (dropped []string, err error) {
	// One call drops one day, and a node that stops in the middle of it locks nothing.
	const drop = `SELECT belfry_drop_history($1) WHERE belfry_clock_trusted()`
	for {
		var table string
		err := s.db.QueryRow(ctx, drop, keep).Scan(&table)
		switch {
		case store.Code(err) == store.LockNotAvailable:
			return dropped, fmt.Errorf("drop days of history: %w: %w", job.ErrInUse, err)
		case store.NoRows(err):
			return dropped, nil
		case err != nil:
			return dropped, fmt.Errorf("drop days of history: %w", err)
		}
		dropped = append(dropped, table)
	}
}
