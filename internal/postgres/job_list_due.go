package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// jobsByDue lists active jobs by the first occurrence that is not planned yet, even if a calendar will take it away. A
// job is in one of two index walks: by its cursor, or by its start if it starts later than its cursor stands. Each walk
// returns a page at most, in the order of the list. A lateral join with a limit can only be a nested loop, so the jobs of
// a cursor are read in the order of its index.
const jobsByDue = `
SELECT x.due, x.partition, x.cursor, x.id FROM (
    (SELECT c.plan_at AS due, c.partition, c.id AS cursor, j.id
     FROM cursor c, LATERAL (
         SELECT j.id FROM job j
         WHERE j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1 /* active */
           AND j.id > CASE WHEN c.plan_at = @due AND c.partition = @part AND c.id = @cursor THEN @after
                           ELSE '` + firstID + `'::uuid END
           AND j.plan_from <= greatest(c.plan_at, now()) AND (j.end_at IS NULL OR c.plan_at < j.end_at)
         ORDER BY j.id LIMIT @most) j
     WHERE c.namespace_id = @namespace AND c.broken_at IS NULL AND c.plan_at < @before
       AND (c.plan_at, c.partition, c.id) >= (@due, @part, @cursor)
     ORDER BY c.plan_at, c.partition, c.id, j.id LIMIT @most)
    UNION ALL
    -- state + 0 keeps PostgreSQL from an index by state, which does not have the order of plan_from.
    (SELECT j.plan_from, j.partition, 0, j.id
     FROM job j
     WHERE j.namespace_id = @namespace AND j.state + 0 = 1 /* active */ AND j.plan_from > now() AND j.plan_from < @before
       AND (j.plan_from, j.partition, j.id) > (greatest(@due, now()), @part, @after_start)
       AND (j.end_at IS NULL OR j.plan_from < j.end_at)
       AND j.plan_from > (
           SELECT c.plan_at FROM cursor c
           WHERE c.partition = j.partition AND c.id = j.cursor_id AND c.broken_at IS NULL)
     ORDER BY j.plan_from, j.partition, j.id LIMIT @most)) x
ORDER BY x.due, x.partition, x.cursor, x.id LIMIT @most`

// byDue finds the ids of a page in the order of due times.
func (l *listing) byDue(ctx context.Context) (ids []uuid.UUID, next *job.ListMark, err error) {
	after, limit := l.order.After, l.order.Limit
	args := pgx.NamedArgs{
		"namespace": l.order.Namespace, "most": limit + 1,
		"due":    infinite(l.order.Due.From, pgtype.NegativeInfinity),
		"before": infinite(l.order.Due.Before, pgtype.Infinity),
		"part":   int16(-1), "cursor": int64(0), "after": uuid.Nil, "after_start": uuid.Nil,
	}
	if after.ID != uuid.Nil {
		args["due"], args["part"], args["cursor"], args["after"] = after.Due, after.Partition, after.Cursor, after.ID
		args["after_start"] = after.ID
		if after.Cursor != 0 { // at the same due time, jobs that start then come first, so all of them are listed
			args["after_start"] = uuid.Max
		}
	}
	var found []job.ListMark
	in := store.In(l.order.Namespace, append(slices.Clone(customPlans), store.KeyLookups, store.InOrder)...)
	err = l.db.Query(ctx, in, func(rows pgx.Rows) error {
		var m job.ListMark
		_, err := pgx.ForEachRow(rows, []any{&m.Due, &m.Partition, &m.Cursor, store.Raw(&m.ID)}, func() error {
			found = append(found, m)
			return nil
		})
		return err
	}, jobsByDue, args)
	if len(found) > limit {
		found, next = found[:limit], &found[limit-1]
	}
	for _, m := range found {
		ids = append(ids, m.ID)
	}
	return ids, next, err
}

func infinite(t time.Time, otherwise pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: otherwise, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}
