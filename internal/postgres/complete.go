package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

var completeSucceeded = statement("complete")

// reportSucceeded counts runs that succeeded.
func (e *Engine) reportSucceeded(done []job.Completion) {
	var l pool.Ledger
	for i := range done {
		l.Ended(done[i].Queue, job.EndedSucceeded, job.ReasonNone, 1)
	}
	e.db.Report(&l)
}

// CompleteSucceeded ends runs whose attempt succeeded. It returns how many were
// fenced: another attempt or session took over, and nothing changed.
func (e *Engine) CompleteSucceeded(ctx context.Context, done []job.Completion) (fenced int, err error) {
	if len(done) == 0 {
		return 0, nil
	}
	sortCompletions(done)
	k, attempt := splitCompletions(done)
	ended := 0
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(pool.KeyLookups))
	batch.Queue(completeSucceeded, k.partition, k.job, k.dueAt, k.seq, attempt, sessionsOf(done)).
		Exec(func(tag pgconn.CommandTag) error {
			ended = int(tag.RowsAffected())
			return nil
		})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, fmt.Errorf("complete %d runs: %w", len(done), err)
	}
	e.reportSucceeded(done[:ended]) // if others were fenced, it may count the queue of one of them
	if ended == len(done) {
		return 0, nil
	}
	// The rest is fenced, or another transaction changed its row meanwhile. CompleteDecided locks in one statement and
	// writes in the next; what ended above is fenced there.
	_, fenced, err = e.CompleteDecided(ctx, done)
	return fenced - ended, err
}
