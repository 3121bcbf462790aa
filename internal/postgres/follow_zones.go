package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// FollowZones moves cursors whose next due time was computed by other time zone rules than those of this process. It
// reads the cursors of a session's partitions once after each change of the rules. Plan continues meanwhile.
func (e *Engine) FollowZones(ctx context.Context, in job.FollowZonesParams) (moved int64, err error) {
	rows, err := e.db.Query(ctx, `SELECT id FROM partition WHERE owner = $1 AND zone_rules IS DISTINCT FROM $2`,
		in.Session, in.Rules)
	if err != nil {
		return 0, fmt.Errorf("find partitions with old time zone rules: %w", err)
	}
	partitions, err := pgx.CollectRows(rows, pgx.RowTo[int16])
	if err != nil {
		return 0, fmt.Errorf("find partitions with old time zone rules: %w", err)
	}
	for _, p := range partitions {
		n, trusted, err := e.followZones(ctx, p, in.LookAhead)
		if moved += n; err != nil {
			return moved, fmt.Errorf("follow time zone rules in partition %d: %w", p, err)
		}
		if !trusted {
			return moved, nil // the next call begins again
		}
		if _, err := e.db.Exec(ctx, `UPDATE partition SET zone_rules = $3 WHERE id = $1 AND owner = $2`,
			p, in.Session, in.Rules); err != nil {
			return moved, fmt.Errorf("follow time zone rules in partition %d: %w", p, err)
		}
	}
	return moved, nil
}

// zonedCursors reads cursors whose occurrences depend on a time zone. Broken ones are computed anew when they can be planned.
const zonedCursors = `
SELECT id, schedule, next_due_at, now() + $4 FROM cursor
WHERE partition = $1 AND id > $2 AND next_due_at > now() + $4 AND broken_at IS NULL
  AND schedule NOT LIKE '%"timezone":"UTC"%'
ORDER BY id LIMIT $3`

// The old time is compared, because plan or a change of a job may have moved the cursor meanwhile.
const followCursors = `
UPDATE cursor c SET next_due_at = k.next
FROM (SELECT unnest($2::bigint[]) AS id, unnest($3::timestamptz[]) AS old, unnest($4::timestamptz[]) AS next) k
WHERE c.partition = $1 AND c.id = k.id AND c.next_due_at = k.old AND c.after_job IS NULL`

// followZones moves the cursors of a partition. It stops if the clock is in doubt: by a wrong clock, it would pass over
// cursors that are due sooner.
func (e *Engine) followZones(
	ctx context.Context, partition int16, lookAhead time.Duration,
) (moved int64, trusted bool, err error) {
	const page = 1000
	for after, n := int64(0), page; n == page; {
		changed, from := int64(0), after
		err := e.db.Tx(ctx, "follow zones", func(tx pgx.Tx) error {
			const begin = `SELECT belfry_clock_trusted() FROM (SELECT ` + string(pool.KeyLookups) + ` OFFSET 0) s`
			if err := tx.QueryRow(ctx, begin).Scan(&trusted); err != nil || !trusted {
				return err
			}
			rows, err := tx.Query(ctx, zonedCursors, partition, from, page, lookAhead)
			if err != nil {
				return err
			}
			n = 0
			var ids []int64
			var old, next []time.Time
			var text string
			var due, planned time.Time
			_, err = pgx.ForEachRow(rows, []any{&after, &text, &due, &planned}, func() error {
				n++
				if to := e.dueByZone(text, due, planned); !to.Equal(due) {
					ids, old, next = append(ids, after), append(old, due), append(next, to)
				}
				return nil
			})
			if err != nil || len(ids) == 0 {
				return err
			}
			tag, err := tx.Exec(ctx, followCursors, partition, ids, old, next)
			changed = tag.RowsAffected()
			return err
		})
		if err != nil || !trusted {
			return moved, false, err
		}
		moved += changed
	}
	return moved, true, nil
}

// dueByZone is when a cursor is due by the rules of this process. If its schedule cannot be computed, it stays: plan
// will report it.
func (e *Engine) dueByZone(text string, due, planned time.Time) time.Time {
	if s, err := e.schedules.get(text); err == nil {
		if to, err := job.FollowZones(s, due, planned); err == nil {
			return to
		}
	}
	return due
}
