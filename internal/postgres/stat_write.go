package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// NamespacesOf returns the namespaces of queues.
func (a *Admin) NamespacesOf(ctx context.Context, queues []int32) (map[int32]uuid.UUID, error) {
	out := map[int32]uuid.UUID{}
	rows, err := a.db.Query(ctx, `SELECT id, namespace_id FROM queue WHERE id = ANY ($1)`, queues)
	if err == nil {
		var queue int32
		var namespace uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&queue, &namespace}, func() error {
			out[queue] = namespace
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespaces of queues: %w", err)
	}
	return out, nil
}

// Rows that have not changed are not written again, except those of the process itself, which say when it wrote.
const writeStats = `
INSERT INTO stat_minute (namespace_id, queue_id, minute, process_id, started, succeeded, failed, cancelled, skipped,
                         missed, late, audited, attempts, attempt_ms, lateness, written_at)
SELECT s.namespace_id, s.queue_id, s.minute, $1, s.started, s.succeeded, s.failed, s.cancelled, s.skipped, s.missed,
       s.late, s.audited, s.attempts, s.attempt_ms, s.lateness::bigint[],
       CASE WHEN s.namespace_id <> '00000000-0000-0000-0000-000000000000' THEN NULL
            WHEN $16 THEN 'infinity' ELSE now() END
FROM unnest($2::uuid[], $3::integer[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[])
    AS s (namespace_id, queue_id, minute, started, succeeded, failed, cancelled, skipped, missed, late, audited,
          attempts, attempt_ms, lateness)
ON CONFLICT (namespace_id, queue_id, minute, process_id) DO UPDATE
SET started = excluded.started, succeeded = excluded.succeeded, failed = excluded.failed,
    cancelled = excluded.cancelled, skipped = excluded.skipped, missed = excluded.missed, late = excluded.late,
    audited = excluded.audited, attempts = excluded.attempts, attempt_ms = excluded.attempt_ms,
    lateness = excluded.lateness, written_at = excluded.written_at
WHERE (stat_minute.started, stat_minute.succeeded, stat_minute.failed, stat_minute.cancelled, stat_minute.skipped,
       stat_minute.missed, stat_minute.late, stat_minute.audited, stat_minute.attempts, stat_minute.written_at)
    IS DISTINCT FROM (excluded.started, excluded.succeeded, excluded.failed, excluded.cancelled, excluded.skipped,
                      excluded.missed, excluded.late, excluded.audited, excluded.attempts, excluded.written_at)`

// WriteStats writes the statistics of a process, in one statement. Losing them is harmless, so the commit does not wait
// for the disk. last: the process stops in order, and has counted everything.
func (a *Admin) WriteStats(ctx context.Context, process uuid.UUID, rows []job.StatRow, last bool) error {
	n := len(rows)
	namespaces, queues, minutes := make([]uuid.UUID, n), make([]int32, n), make([]time.Time, n)
	var counts [10][]int64
	for i := range counts {
		counts[i] = make([]int64, n)
	}
	lateness := make([]string, n)
	for i := range rows {
		r := &rows[i]
		namespaces[i], queues[i], minutes[i] = r.Namespace, r.Queue, r.Minute
		for c, value := range [10]int64{
			r.Started, r.Succeeded, r.Failed, r.Cancelled, r.Skipped, r.Missed, r.Late, r.Audited,
			r.Attempts, r.Took.Milliseconds(),
		} {
			counts[c][i] = value
		}
		lateness[i] = "{" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]int64(r.Lateness))), ","), "[]") + "}"
	}
	args := []any{process, namespaces, queues, minutes}
	for _, column := range counts {
		args = append(args, column)
	}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.LazyCommit))
	batch.Queue(writeStats, append(args, lateness, last)...)
	if err := a.db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write statistics: %w", err)
	}
	return nil
}
