package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// The output of an ended attempt comes before its live output, because it is complete.
const readOutputs = `
SELECT DISTINCT ON (attempt) attempt, total_bytes, output FROM (
    (SELECT attempt, total_bytes, output, 0 AS live FROM run_output
     WHERE job_id = $2 AND due_at = $3 AND seq = $4 ORDER BY attempt DESC LIMIT 50)
    UNION ALL
    SELECT attempt, total_bytes, output, 1 FROM run_output_live WHERE ` + store.ByKey + `) x
ORDER BY attempt, live`

// Outputs returns the last part of the output of each attempt of a run that has written any, in order.
func (a *API) Outputs(ctx context.Context, namespace uuid.UUID, k job.Key) (out []job.Output, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.Output, error) {
			o := job.Output{Key: k, Namespace: namespace}
			return o, row.Scan(&o.Attempt, &o.Total, &o.Text)
		})
		return err
	}, readOutputs, k.Partition, k.Job, k.DueAt, k.Seq)
	if err != nil {
		return nil, fmt.Errorf("read the output of a run: %w", err)
	}
	return out, nil
}
