package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Entrance queues the first statement of a transaction, which decides what the others may see. All of them look rows up by
// key.
type Entrance func(*pgx.Batch)

// Begin begins a transaction and runs one statement in it, in one round trip.
func (enter Entrance) Begin(ctx context.Context, tx pgx.Tx, sql string) error {
	var batch pgx.Batch
	enter(&batch)
	batch.Queue(sql)
	return tx.SendBatch(ctx, &batch).Close()
}

// AsEngine begins a transaction of a node, which sees all namespaces.
func AsEngine(b *pgx.Batch) { b.Queue(Apply(KeyLookups)) }

// AsWorker begins a transaction on behalf of the workers of a queue. Row-level security restricts it to the namespace
// of their key.
func AsWorker(namespace uuid.UUID, queue int32) Entrance {
	return InWith(namespace, []int32{queue}, KeyLookups, OnePlan).Queue
}

// AsReporter begins a transaction on behalf of those who report on runs: workers, and targets with a token. Row-level
// security restricts it to their namespace. Rows of these queues are found without reading all queues of the namespace.
func AsReporter(namespace uuid.UUID, queues ...int32) Entrance {
	return InWith(namespace, queues, KeyLookups).Queue
}
