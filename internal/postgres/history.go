package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// CreateHistory creates the tables of history and of output for today and the days ahead, by the database's clock. Any
// number of nodes may call it at the same time. No other transaction waits for it. It returns job.ErrInUse if one locks the
// history.
func (e *Engine) CreateHistory(ctx context.Context, ahead int) error {
	_, err := e.db.Exec(ctx, `SELECT belfry_create_history($1)`, ahead)
	switch {
	case Code(err) == lockNotAvailable:
		return fmt.Errorf("create the days of history: %w: %w", job.ErrInUse, err)
	case err != nil:
		return fmt.Errorf("create the days of history: %w", err)
	}
	return nil
}

// oldestDay is the oldest day of history or output that is older than the retention and may be dropped.
const oldestDay = `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent IN ('run_history'::regclass, 'run_output'::regclass) AND c.relname ~ '^run_(history|output)_[0-9]{8}$'
  AND right(c.relname, 8) < to_char(now() AT TIME ZONE 'UTC' - $1::interval, 'YYYYMMDD') AND belfry_may_drop(c.relname)
ORDER BY right(c.relname, 8), 1 LIMIT 1`

// DropHistory drops the days that are older than the retention, and returns their tables. If there are rules that keep
// runs longer, those are copied first, and copies that no rule keeps any more are removed. It returns job.ErrInUse if
// other transactions use the history, for example a backup: completions would wait for a DROP that waits for those.
func (e *Engine) DropHistory(ctx context.Context, keep time.Duration) (dropped []string, err error) {
	var kept bool
	if err := e.db.QueryRow(ctx, `SELECT belfry_keeps_runs()`).Scan(&kept); err != nil {
		return nil, fmt.Errorf("drop days of history: %w", err)
	}
	step := e.dropDay
	if kept {
		if err := e.dropKept(ctx); err != nil {
			return nil, err
		}
		step = e.dropCopied
	}
	for {
		table, gone, err := step(ctx, keep)
		switch {
		case Code(err) == lockNotAvailable:
			return dropped, fmt.Errorf("drop days of history: %w: %w", job.ErrInUse, err)
		case err != nil:
			return dropped, fmt.Errorf("drop days of history: %w", err)
		case table == "":
			return dropped, nil
		case gone:
			dropped = append(dropped, table)
		}
	}
}

// dropDay drops the oldest day that may be dropped, in one call: a node that stops in the middle of it locks nothing.
func (e *Engine) dropDay(ctx context.Context, keep time.Duration) (table string, gone bool, err error) {
	err = e.db.QueryRow(ctx, `SELECT belfry_drop_history($1) WHERE belfry_clock_trusted()`, keep).Scan(&table)
	if noRows(err) {
		return "", false, nil
	}
	return table, true, err
}

// dropCopied copies a part of the oldest day that may be dropped, or the last page of it, and then drops it. The
// advisory lock keeps other nodes from doing the same.
func (e *Engine) dropCopied(ctx context.Context, keep time.Duration) (table string, gone bool, err error) {
	var failed []uuid.UUID
	err = e.db.Tx(ctx, "drop a day of history", func(tx pgx.Tx) error {
		table, gone, failed = "", false, nil
		mine, err := lockHistory(ctx, tx)
		if err != nil || !mine {
			return err
		}
		if err := tx.QueryRow(ctx, oldestDay, keep).Scan(&table); noRows(err) {
			return nil
		} else if err != nil {
			return err
		}
		c, err := beginCopy(ctx, tx, table)
		if err != nil {
			return err
		}
		if last := c.pages - 1; c.needed && c.next < last {
			return c.copyPages(ctx, tx, min(c.next+keepPages, last))
		}
		gone = true
		failed, err = c.drop(ctx, tx, table, keep)
		return err
	})
	if Code(err) == notReady { // rows came that the archive does not have
		return "", false, nil
	}
	if err == nil && len(failed) > 0 {
		err = e.db.Tx(ctx, "drop kept runs", func(tx pgx.Tx) error { return trimFailures(ctx, tx, failed) })
	}
	return table, gone, err
}

// lockHistory returns false if another node drops or copies days, or if the clock of the database is in doubt.
func lockHistory(ctx context.Context, tx pgx.Tx) (mine bool, err error) {
	const lock = `SELECT belfry_clock_trusted() AND pg_try_advisory_xact_lock(hashtext('belfry history'))`
	err = tx.QueryRow(ctx, lock).Scan(&mine)
	return mine, err
}
