package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// enterFunc queues the first statement of a transaction, which decides what the others may see. All of them look rows up by
// key.
type enterFunc func(*pgx.Batch)

// begin begins a transaction and runs one statement in it, in one round trip.
func (enter enterFunc) begin(ctx context.Context, tx pgx.Tx, sql string) error {
	var batch pgx.Batch
	enter(&batch)
	batch.Queue(sql)
	return tx.SendBatch(ctx, &batch).Close()
}

// asEngine begins a transaction of a node, which sees all namespaces.
func asEngine(b *pgx.Batch) { b.Queue(pool.Apply(pool.KeyLookups)) }

// asWorker begins a transaction on behalf of the workers of a queue. Row-level security restricts it to the namespace
// of their key.
func asWorker(namespace uuid.UUID, queue int32) enterFunc {
	return pool.InWith(namespace, []int32{queue}, pool.KeyLookups, pool.OnePlan).Queue
}

// asReporter begins a transaction on behalf of those who report on runs: workers, and targets with a token. Row-level
// security restricts it to their namespace. Rows of these queues are found without reading all queues of the namespace.
func asReporter(namespace uuid.UUID, queues ...int32) enterFunc {
	return pool.InWith(namespace, queues, pool.KeyLookups).Queue
}

// splitNamespaces groups completions by namespace and keeps their order in each.
func splitNamespaces(done []job.Completion) (out [][]job.Completion) {
	of := map[uuid.UUID]int{}
	for _, c := range done {
		i, known := of[c.Namespace]
		if !known {
			i = len(out)
			of[c.Namespace], out = i, append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// queuesOf returns the queues of completions, each once.
func queuesOf(done []job.Completion) (out []int32) {
	for _, c := range done {
		out = append(out, c.Queue)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
