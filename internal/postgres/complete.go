package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// Finished runs leave the live table and enter history in one statement, each
// fenced by its attempt: a stale one finds no row. Nor does one whose row somebody
// else, who gave it a hold, wrote while this waited for the lock: the address is that of a version
// which this statement does not see yet.
const (
	succeededKeys = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at, unnest($4::smallint[]) AS seq,
           unnest($5::smallint[]) AS attempt`
	succeededFound = `
), ended AS (
    DELETE FROM run
    WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM k, LATERAL (
            SELECT r.ctid AS address FROM run r
            WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
              AND r.attempt = k.attempt AND r.state <> 0`
	succeededEnd = `
            LIMIT 1 FOR UPDATE) x))
    RETURNING *
), ` + freeHolds + `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin, status, session_id, queue_id, attempts, idempotency_key)
SELECT partition, seq, version, job_id, due_at, run_at, claimed_at, now(), 1, attempt, origin, 0, session_id, queue_id, attempts, idempotency_key FROM ended`

	completeSucceeded = succeededKeys + succeededFound + succeededEnd
)

// CompleteSucceeded ends runs whose attempt succeeded. It returns how many of
// them were fenced: another attempt has taken their place, and nothing changed.
func (e *Engine) CompleteSucceeded(ctx context.Context, done []job.Completion) (fenced int, err error) {
	if len(done) == 0 {
		return 0, nil
	}
	sortCompletions(done)
	k, attempt := splitCompletions(done)
	ended := 0
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(pool.KeyLookups))
	batch.Queue(completeSucceeded, k.partition, k.job, k.dueAt, k.seq, attempt).Exec(func(tag pgconn.CommandTag) error {
		ended = int(tag.RowsAffected())
		return nil
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, fmt.Errorf("complete %d runs: %w", len(done), err)
	}
	var l pool.Ledger
	l.Ended(job.EndedSucceeded, job.ReasonNone, int64(ended))
	e.db.Report(&l)
	if ended == len(done) {
		return 0, nil
	}
	// Fenced, or not seen. This locks in one statement and writes in the next; what ended above is fenced there.
	_, fenced, err = e.CompleteDecided(ctx, done)
	return fenced - ended, err
}
