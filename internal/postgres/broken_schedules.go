package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

const (
	brokenCursors = 5000 // that are read
	brokenJobs    = 1000 // of one schedule that are counted
	brokenSample  = 5
)

// brokenSchedules joins the cursors of a schedule, of which each partition may have one.
const brokenSchedules = `
WITH broken AS MATERIALIZED (
    SELECT partition, id, key, schedule, problem, broken_at, retry_at
    FROM cursor WHERE broken_at IS NOT NULL AND namespace_id = $1 ORDER BY broken_at LIMIT $2
), grouped AS (
    SELECT key, min(schedule) AS schedule, min(problem) AS problem, min(broken_at) AS since, min(retry_at) AS retry_at
    FROM broken GROUP BY key ORDER BY since, key LIMIT $3
)
SELECT g.schedule, coalesce(g.problem, ''), g.since, g.retry_at, (SELECT count(*) FROM broken),
       j.n, j.ids[1:$5], j.names[1:$5]
FROM grouped g, LATERAL (
    SELECT count(*) AS n, array_agg(x.id) AS ids, array_agg(x.name) AS names FROM (
        SELECT a.id, a.name FROM broken b, LATERAL (
            SELECT id, name FROM job WHERE partition = b.partition AND cursor_id = b.id AND state = 1 /* active */
            LIMIT $4) a
        WHERE b.key = g.key LIMIT $4) x) j
ORDER BY g.since, g.key`

// BrokenSchedules lists up to limit schedules of a namespace that nodes cannot plan, and whether there may be more.
func (a *Admin) BrokenSchedules(
	ctx context.Context, namespace uuid.UUID, limit int,
) (out []job.BrokenSchedule, more bool, err error) {
	err = a.api.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		var b job.BrokenSchedule
		var retry *time.Time
		var read int64
		var ids []uuid.UUID
		var names []string
		_, err := pgx.ForEachRow(
			rows, []any{&b.Schedule, &b.Problem, &b.Since, &retry, &read, &b.Jobs, &ids, &names}, func() error {
				b.Since, b.RetryAt, b.More, b.Sample = b.Since.UTC(), store.OrZero(retry).UTC(), b.Jobs == brokenJobs, nil
				for i := range ids {
					b.Sample = append(b.Sample, job.BrokenJob{ID: ids[i], Name: names[i]})
				}
				out, more = append(out, b), read == brokenCursors
				return nil
			})
		return err
	}, brokenSchedules, namespace, brokenCursors, limit+1, brokenJobs, brokenSample)
	if err != nil {
		return nil, false, fmt.Errorf("list broken schedules: %w", err)
	}
	if len(out) > limit {
		out, more = out[:limit], true
	}
	return out, more, nil
}
