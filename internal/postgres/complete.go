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

// reportSucceeded counts runs that succeeded. If others were fenced, it may count the queue of one of them.
func (e *Engine) reportSucceeded(done []job.Completion, ends []job.End) {
	var l pool.Ledger
	for i := range done {
		l.Ended(done[i].Queue, job.EndedSucceeded, job.ReasonNone, 1)
	}
	for _, end := range ends {
		l.Run(end)
	}
	e.db.Report(&l)
}

// reportEnds reports the ends of completions, except those that the transaction of found reported, for their spans.
// It may name fenced ones: a reader does not find these attempts in history.
func (e *Engine) reportEnds(done []job.Completion, found []foundAttempt) {
	if !e.db.WantsEnds() {
		return
	}
	reported := make(map[job.RunKey]int16, len(found))
	for i := range found {
		reported[found[i].Key.RunKey()] = found[i].Attempt
	}
	var l pool.Ledger
	for i := range done {
		if c := &done[i]; reported[c.Key.RunKey()] != c.Attempt {
			l.Run(c.Succeeded())
		}
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
	batch.Queue(completeSucceeded, k.partition, k.job, k.dueAt, k.seq, attempt, sessionsOf(done), lateOf(done)).
		Exec(func(tag pgconn.CommandTag) error {
			ended = int(tag.RowsAffected())
			return nil
		})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, fmt.Errorf("complete %d runs: %w", len(done), err)
	}
	e.reportSucceeded(done[:ended], nil)
	if ended == len(done) {
		e.reportEnds(done, nil)
		return 0, nil
	}
	// The rest is fenced, or another transaction changed its row meanwhile. decide locks in one statement and writes in
	// the next; what ended above is fenced there.
	d, err := e.decide(ctx, asEngine, done)
	if err != nil {
		return 0, err // the caller retries, and then they are reported
	}
	e.reportEnds(done, d.found)
	return d.fenced - ended, nil
}
