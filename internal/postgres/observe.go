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
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// countSkips reports the ranges that a transaction writes into history. A range without a count counts as one.
func countSkips(tx pgx.Tx, queue int32, skips []job.Skip) {
	for _, s := range skips {
		pool.LedgerOf(tx).Ended(queue, job.EndedSkipped, s.Reason, max(s.Count, 1))
	}
}

// SchemaVersion reads the version of the schema. It also shows that the database responds.
func (a *Admin) SchemaVersion(ctx context.Context) (version int64, err error) {
	if err := a.db.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version); err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// Depth is how many live runs and dead letters some partitions have.
type Depth struct {
	Queues      []QueueDepth
	DeadLetters int64
	Sessions    int64 // nodes that are alive in the whole cluster
}

// QueueDepth is how many live runs of a queue there are, by state.
type QueueDepth struct {
	Namespace, Queue                 string
	ID                               int32
	Scheduled, Due, Running, Waiting int64
	Late                             int64 // of those that are due, for more than job.LateAfter
}

const (
	depthLimit = 100_000 // the maximum number of rows to count
	depthTime  = 2 * time.Second
)

const queueDepth = `
SELECT coalesce(n.name, q.namespace_id::text, ''), coalesce(q.name, ''), coalesce(q.id, 0),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.run_at > now()),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.run_at <= now()),
       count(*) FILTER (WHERE r.state = 1 /* running */),
       count(*) FILTER (WHERE r.state = 2 /* waiting */),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.run_at <= now() - $3::interval)
FROM (SELECT queue_id, state, run_at FROM run WHERE partition = ANY ($1) LIMIT $2) r
LEFT JOIN queue q ON q.id = r.queue_id
LEFT JOIN namespace n ON n.id = q.namespace_id
GROUP BY 1, 2, 3
ORDER BY count(*) DESC`

const otherDepth = `
SELECT (SELECT count(*) FROM (SELECT FROM dead_letter WHERE partition = ANY ($1) LIMIT $2) d),
       (SELECT count(*) FROM session WHERE expires_at > now() AND queue_id IS NULL)`

// Depth counts live runs and dead letters of partitions. It reads many rows, up to a maximum number and time. Call it
// from time to time, not for each scrape.
func (e *Engine) Depth(ctx context.Context, partitions []int16) (d Depth, err error) {
	ctx, cancel := context.WithTimeout(ctx, depthTime)
	defer cancel()
	var batch pgx.Batch // one round trip, one transaction
	// The server cancels the statement first: if this side does, it has to close the connection.
	batch.Queue(`SELECT set_config('statement_timeout', '1s', true)`)
	batch.Queue(queueDepth, partitions, depthLimit, job.LateAfter).Query(func(rows pgx.Rows) error {
		d.Queues, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueDepth])
		return err
	})
	batch.Queue(otherDepth, partitions, depthLimit).
		QueryRow(func(row pgx.Row) error { return row.Scan(&d.DeadLetters, &d.Sessions) })
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return Depth{}, fmt.Errorf("count live runs: %w", err)
	}
	return d, nil
}

// Lost reports whether the connection broke while a statement or transaction was under way, or the outcome is unknown
// for another reason.
func Lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || pgconn.SafeToRetry(err) ||
		errors.Is(err, pool.ErrUnconfirmed)
}

// BadText reports whether a text has a character that the database cannot store.
func BadText(err error) bool {
	c := Code(err)
	return c == "22021" || c == "22P05" // character_not_in_repertoire, untranslatable_character
}

// MayPass reports whether connecting may succeed later without a change: the server is unreachable, starting, stopping
// or full. A wrong password or a missing database needs an operator.
func MayPass(err error) bool {
	if c := Code(err); c != "" {
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "53") || strings.HasPrefix(c, "57P")
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connecting || errors.Is(err, context.DeadlineExceeded)
}
