package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
)

// Observer is told what was written into the ledger, after it was committed, so
// that what it counts is what the ledger says. Called by many goroutines.
type Observer interface {
	// Entered tells of runs that entered history. A skipped range counts as its occurrences.
	Entered(how job.Ended, why job.Reason, runs int64)
	// Skipped tells of due times that no job of a cursor runs for.
	Skipped(why job.Reason, dueTimes int64)
}

// Observe names the observer, before the store is used.
func (s *Store) Observe(o Observer) { s.observer = o }

// ledgerTx is a transaction of inTx. It counts what it writes into the ledger.
type ledgerTx struct {
	pgx.Tx
	ended   map[end]int64
	skipped map[job.Reason]int64
}

type end struct {
	how job.Ended
	why job.Reason
}

// countEnds notes runs that the transaction writes into history.
func countEnds(tx pgx.Tx, how job.Ended, why job.Reason, n int64) {
	if l, ok := tx.(*ledgerTx); ok && n > 0 {
		l.ended[end{how, why}] += n
	}
}

// countSkips notes ranges that the transaction writes into history. One without
// a count is one entry.
func countSkips(tx pgx.Tx, skips []job.Skip) {
	for _, s := range skips {
		countEnds(tx, job.EndedSkipped, s.Reason, max(s.Count, 1))
	}
}

// tell reports what a committed transaction has counted.
func (s *Store) tell(l *ledgerTx) {
	if s.observer == nil {
		return
	}
	for e, n := range l.ended {
		s.observer.Entered(e.how, e.why, n)
	}
	for why, n := range l.skipped {
		s.observer.Skipped(why, n)
	}
}

// PoolStats is how busy the connections are.
type PoolStats struct {
	Acquired, Idle, Max int32
	Waits               int64         // times that all were busy
	Waited              time.Duration // in all
}

// PoolStats tells how busy the connections are.
func (s *Store) PoolStats() PoolStats {
	p := s.pool.Stat()
	return PoolStats{
		Acquired: p.AcquiredConns(), Idle: p.IdleConns(), Max: p.MaxConns(),
		Waits: p.EmptyAcquireCount(), Waited: p.EmptyAcquireWaitTime(),
	}
}

// SchemaVersion reads the version of the schema, which also shows that the
// database answers.
func (s *Store) SchemaVersion(ctx context.Context) (version int64, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version); err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// Depth is how much waits, in some partitions.
type Depth struct {
	Queues      []QueueDepth
	DeadLetters int64
	Sessions    int64 // alive, of the whole cluster
}

// QueueDepth is how many live runs of a queue there are, by state.
type QueueDepth struct {
	Namespace, Queue                 string
	Scheduled, Due, Running, Waiting int64
}

const (
	depthLimit = 100_000 // rows that are counted; more are not told apart
	depthTime  = 2 * time.Second
)

const queueDepth = `
SELECT coalesce(n.name, q.namespace_id::text, ''), coalesce(q.name, ''),
       count(*) FILTER (WHERE r.state = 0 AND r.run_at > now()), count(*) FILTER (WHERE r.state = 0 AND r.run_at <= now()),
       count(*) FILTER (WHERE r.state = 1), count(*) FILTER (WHERE r.state = 2)
FROM (SELECT queue_id, state, run_at FROM run WHERE partition = ANY ($1) LIMIT $2) r
LEFT JOIN queue q ON q.id = r.queue_id LEFT JOIN namespace n ON n.id = q.namespace_id
GROUP BY 1, 2 ORDER BY count(*) DESC`

const otherDepth = `
SELECT (SELECT count(*) FROM (SELECT FROM dead_letter WHERE partition = ANY ($1) LIMIT $2) d), (SELECT count(*) FROM session WHERE expires_at > now() AND queue_id IS NULL)`

// Depth counts what waits in partitions. It reads many rows and is bounded in
// their number and in time: for a look from time to time, not for each scrape.
func (s *Store) Depth(ctx context.Context, partitions []int16) (d Depth, err error) {
	ctx, cancel := context.WithTimeout(ctx, depthTime)
	defer cancel()
	var batch pgx.Batch // one round trip, one transaction
	// The server gives up first: who gives up here has to close the connection.
	batch.Queue(`SELECT set_config('statement_timeout', '1s', true)`)
	batch.Queue(queueDepth, partitions, depthLimit).Query(func(rows pgx.Rows) error {
		d.Queues, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueDepth])
		return err
	})
	batch.Queue(otherDepth, partitions, depthLimit).QueryRow(func(row pgx.Row) error { return row.Scan(&d.DeadLetters, &d.Sessions) })
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return Depth{}, fmt.Errorf("count what waits: %w", err)
	}
	return d, nil
}

// Lost says that the connection broke in the middle of something.
func Lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || pgconn.SafeToRetry(err)
}

// BadText says that a text has a character that the database cannot store.
func BadText(err error) bool {
	c := code(err)
	return c == "22021" || c == "22P05" // character_not_in_repertoire, untranslatable_character
}

// MayPass says whether an error of connecting may pass by itself: the server
// cannot be reached, is starting, stopping or full. A wrong password or a
// database that is not there needs somebody.
func MayPass(err error) bool {
	if c := code(err); c != "" {
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "53") || strings.HasPrefix(c, "57P")
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connecting || errors.Is(err, context.DeadlineExceeded)
}
