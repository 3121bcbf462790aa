package finish

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// liveAttempts returns the indexes of those of the attempts that are the live attempt of their run.
const liveAttempts = `
SELECT k.i
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
             unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt, unnest($6::uuid[]) AS session_id,
             generate_series(0, cardinality($1) - 1) AS i) k, LATERAL (
    SELECT FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.attempt = k.attempt AND r.session_id = k.session_id AND r.state <> 0 /* live */
    LIMIT 1) r`

// Fenced returns those of the attempts that are no longer the live attempt of their run. Their outcome will be
// refused.
func (s *Store) Fenced(ctx context.Context, attempts []job.Attempt) ([]job.Attempt, error) {
	ends := make([]job.Completion, len(attempts))
	for i, a := range attempts {
		ends[i] = job.Completion{Key: a.Key, Session: a.Session, Attempt: a.Number}
	}
	k, numbers := SplitCompletions(ends)
	live := make([]bool, len(attempts))
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(liveAttempts, k.Partition, k.Job, k.DueAt, k.Seq, numbers, SessionsOf(ends)).
		Query(func(rows pgx.Rows) error {
			var i int
			_, err := pgx.ForEachRow(rows, []any{&i}, func() error {
				live[i] = true
				return nil
			})
			return err
		})
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("find fenced attempts among %d: %w", len(attempts), err)
	}
	var fenced []job.Attempt
	for i, a := range attempts {
		if !live[i] {
			fenced = append(fenced, a)
		}
	}
	return fenced, nil
}
