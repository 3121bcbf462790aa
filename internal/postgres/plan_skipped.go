package postgres

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// skippedBy reads whose due times were skipped.
const skippedBy = `
SELECT k.n - 1, c.namespace_id
FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS k (partition, id, n), LATERAL (
    SELECT namespace_id FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1) c`

// countSkipped reports the due times that are skipped.
func (b *planBatch) countSkipped(tx pgx.Tx, batch *pgx.Batch, out *job.Planned) {
	k := &b.skipped
	for i, n := range k.count {
		out.Skipped += n
		if job.Reason(k.reason[i]).Missed() {
			out.Missed.Add(job.Outage{Skipped: n, From: k.from[i], To: k.to[i]})
		}
	}
	batch.Queue(skippedBy, k.partition, k.cursor).Query(func(rows pgx.Rows) error {
		var i int64
		var namespace uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&i, raw(&namespace)}, func() error {
			pool.LedgerOf(tx).Skipped(namespace, job.Reason(k.reason[i]), k.count[i])
			return nil
		})
		return err
	})
}
