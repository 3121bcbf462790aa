package postgres

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// writeSkipped records and reports the due times that are skipped.
func (b *planBatch) writeSkipped(tx pgx.Tx, batch *pgx.Batch, out *job.Planned) {
	k := &b.skipped
	for i, n := range k.count {
		out.Skipped += n
		if job.Reason(k.reason[i]).Missed() {
			out.Missed.Add(job.Outage{Skipped: n, From: k.from[i], To: k.to[i]})
		}
	}
	batch.Queue(planSkips, k.partition, k.cursor, k.from, k.to, k.count, k.reason, out.Now).
		Query(func(rows pgx.Rows) error {
			var namespace uuid.UUID
			var reason job.Reason
			var n int64
			_, err := pgx.ForEachRow(rows, []any{store.Raw(&namespace), &reason, &n}, func() error {
				store.LedgerOf(tx).Skipped(namespace, reason, n)
				return nil
			})
			return err
		})
}
