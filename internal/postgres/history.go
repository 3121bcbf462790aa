package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// MakeHistory makes the partitions of history for today and the days ahead, by
// the database's clock. Nodes may do it at once.
func (s *Store) MakeHistory(ctx context.Context, ahead int) error {
	return s.inTx(ctx, "make the days of history", func(tx pgx.Tx) error {
		var today time.Time
		// The lock: two CREATE TABLE IF NOT EXISTS at once may still collide.
		err := tx.QueryRow(ctx, `SELECT date_trunc('day', now(), 'UTC') FROM pg_advisory_xact_lock(hashtext('belfry history'))`).Scan(&today)
		if err != nil {
			return err
		}
		for d := -1; d <= ahead; d++ {
			day := today.UTC().AddDate(0, 0, d)
			_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF run_history FOR VALUES FROM ('%s+00') TO ('%s+00')`,
				historyTable(day), day.Format(time.DateTime), day.AddDate(0, 0, 1).Format(time.DateTime)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func historyTable(day time.Time) string { return "run_history_" + day.Format("20060102") }

// DropHistory drops the days that ended before the retention, and returns them.
func (s *Store) DropHistory(ctx context.Context, keep time.Duration) (dropped []string, err error) {
	rows, err := s.pool.Query(ctx, `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'run_history'::regclass
  AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (now() AT TIME ZONE 'UTC') - $1::interval
ORDER BY 1`, keep)
	if err != nil {
		return nil, fmt.Errorf("list the days of history: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the days of history: %w", err)
	}
	for _, table := range tables {
		if _, err := s.pool.Exec(ctx, `DROP TABLE IF EXISTS `+pgx.Identifier{table}.Sanitize()); err != nil {
			return dropped, fmt.Errorf("drop %s: %w", table, err)
		}
		dropped = append(dropped, table)
	}
	return dropped, nil
}
