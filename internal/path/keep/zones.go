package keep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// FollowZones moves cursors whose next due time was computed by other time zone rules than those of this process. It
// reads the cursors of a session's partitions once after each change of the rules. Plan continues meanwhile.
func (s *Store) FollowZones(ctx context.Context, in job.FollowZonesParams) (moved int64, err error) {
	rows, err := s.db.Query(ctx, `SELECT id FROM partition WHERE owner = $1 AND zone_rules IS DISTINCT FROM $2`,
		in.Session, in.Rules)
	if err != nil {
		return 0, fmt.Errorf("find partitions with old time zone rules: %w", err)
	}
	partitions, err := pgx.CollectRows(rows, pgx.RowTo[int16])
	if err != nil {
		return 0, fmt.Errorf("find partitions with old time zone rules: %w", err)
	}
	if len(partitions) == 0 {
		return 0, nil
	}
	moved, trusted, err := s.followZones(ctx, partitions, in.LookAhead)
	if err != nil || !trusted {
		return moved, err // the next call begins again
	}
	_, err = s.db.Exec(ctx, `UPDATE partition SET zone_rules = $3 WHERE id = ANY ($1) AND owner = $2`,
		partitions, in.Session, in.Rules)
	if err != nil {
		return moved, fmt.Errorf("record the time zone rules: %w", err)
	}
	return moved, nil
}

// zonedCursors reads cursors whose occurrences depend on a time zone. Broken ones are computed again when they can be
// planned.
const zonedCursors = `
SELECT partition, id, schedule, next_due_at, now() + $5 FROM cursor
WHERE partition = ANY ($1) AND (partition, id) > ($2, $3) AND next_due_at > now() + $5 AND broken_at IS NULL
  AND schedule NOT LIKE '%"timezone":"UTC"%'
ORDER BY partition, id LIMIT $4`

// The old time is compared, because plan or a change of a job may have moved the cursor meanwhile.
const followCursors = `
UPDATE cursor c SET next_due_at = k.next
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id, unnest($3::timestamptz[]) AS old,
             unnest($4::timestamptz[]) AS next) k
WHERE c.partition = k.partition AND c.id = k.id AND c.next_due_at = k.old AND c.after_job IS NULL`

// followZones moves the cursors of partitions. It stops if the clock is in doubt: by a wrong clock, it would pass over
// cursors that are due sooner.
func (s *Store) followZones(
	ctx context.Context, partitions []int16, lookAhead time.Duration,
) (moved int64, trusted bool, err error) {
	const page = 1000
	partition, id := int16(-1), int64(0) // the last one that was read
	for n := page; n == page; {
		var changed int64
		afterPartition, afterID := partition, id
		err := s.db.Tx(ctx, "follow zones", func(tx pgx.Tx) error {
			const begin = `SELECT belfry_clock_trusted() FROM (SELECT ` + string(store.KeyLookups) + ` OFFSET 0) s`
			if err := tx.QueryRow(ctx, begin).Scan(&trusted); err != nil || !trusted {
				return err
			}
			rows, err := tx.Query(ctx, zonedCursors, partitions, afterPartition, afterID, page, lookAhead)
			if err != nil {
				return err
			}
			n = 0
			var to zonedTimes
			var text string
			var due, planned time.Time
			_, err = pgx.ForEachRow(rows, []any{&partition, &id, &text, &due, &planned}, func() error {
				n++
				if next := s.dueByZone(text, due, planned); !next.Equal(due) {
					to.partition, to.id = append(to.partition, partition), append(to.id, id)
					to.old, to.next = append(to.old, due), append(to.next, next)
				}
				return nil
			})
			if err != nil || len(to.id) == 0 {
				return err
			}
			tag, err := tx.Exec(ctx, followCursors, to.partition, to.id, to.old, to.next)
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

// zonedTimes are cursors that move, as the arrays that the statement takes.
type zonedTimes struct {
	partition []int16
	id        []int64
	old, next []time.Time
}

// dueByZone is when a cursor is due by the rules of this process. If its schedule cannot be computed, it stays: plan
// will report it.
func (s *Store) dueByZone(text string, due, planned time.Time) time.Time {
	if s, err := s.schedules.Get(text); err == nil {
		if to, err := job.FollowZones(s, due, planned); err == nil {
			return to
		}
	}
	return due
}
