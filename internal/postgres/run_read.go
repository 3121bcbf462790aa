package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// oneRun is every entry of one run: the live one, and each of its ends.
const oneRun = selectEntries + `
    SELECT * FROM (
        SELECT ` + liveEntry + `
        FROM run r
        WHERE r.partition = @partition AND r.job_id = @job AND r.due_at = @due AND r.seq = @seq
        UNION ALL
        (SELECT ` + endedEntry + `
         FROM run_history h
         WHERE h.job_id = @job AND h.due_at = @due AND h.seq = @seq
         ORDER BY h.ended_at DESC LIMIT 100)) u) x
ORDER BY x.ended_at DESC`

// Run returns all entries of the ledger about a run, newest first, or ErrNotFound.
func (a *API) Run(ctx context.Context, namespace uuid.UUID, k job.Key) ([]job.Entry, error) {
	entries, err := a.entries(
		ctx, listQuery{namespace: namespace}, oneRun,
		pgx.NamedArgs{"partition": k.Partition, "job": k.Job, "due": k.DueAt, "seq": k.Seq, "far": far},
	)
	if err == nil && len(entries) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	return entries, nil
}
