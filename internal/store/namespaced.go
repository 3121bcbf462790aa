package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// asNamespace takes the role that row-level security binds to the namespace $1, until the end of the transaction.
// The other two bind it to queues: inQueues to those of the namespace, asQueues to those of any namespaces.
const (
	asAPI                = `set_config('role', 'belfry_api', true), `
	asNamespace Settings = asAPI + `set_config('belfry.namespace', $1::uuid::text, true)`
	inQueues    Settings = `set_config('belfry.queues', $2::integer[]::text, true)`
	asQueues    Settings = asAPI + `set_config('belfry.queues', $1::integer[]::text, true)`
)

// Scope is what a transaction may see, and settings for it.
type Scope struct {
	enter string
	args  []any
}

// In is the scope of a namespace.
func In(namespace uuid.UUID, settings ...Settings) Scope {
	return Scope{Apply(append([]Settings{asNamespace}, settings...)...), []any{namespace}}
}

// InWith is the scope of a namespace, in which the rows of some of its queues are found fastest.
func InWith(namespace uuid.UUID, queues []int32, settings ...Settings) Scope {
	return Scope{Apply(append([]Settings{asNamespace, inQueues}, settings...)...), []any{namespace, queues}}
}

// InQueues is the scope of queues: their runs, with history and permits, and nothing else.
func InQueues(queues []int32, settings ...Settings) Scope {
	return Scope{Apply(append([]Settings{asQueues}, settings...)...), []any{queues}}
}

// Queue makes the statements that follow in a batch, and the rest of its transaction, those of the scope. There is no
// way back to all namespaces.
func (s Scope) Queue(b *pgx.Batch) { b.Queue(s.enter, s.args...) }

// Enter makes the rest of a transaction that sees every namespace one of a scope.
// There is no way back.
func Enter(ctx context.Context, tx pgx.Tx, s Scope) error {
	_, err := tx.Exec(ctx, s.enter, s.args...)
	return err
}

// Namespaced runs statements that see and change the rows of one namespace,
// whatever they say: each transaction is bound to it by row-level security.
type Namespaced struct{ pool *Pool }

// Tx runs work in a transaction of a namespace.
func (n Namespaced) Tx(ctx context.Context, s Scope, what string, work func(pgx.Tx) error) error {
	return n.pool.inTx(ctx, what, func(tx pgx.Tx) error {
		if err := Enter(ctx, tx, s); err != nil {
			return err
		}
		return work(tx)
	})
}

// Query reads rows of a namespace, in one round trip and one transaction.
func (n Namespaced) Query(ctx context.Context, s Scope, read func(pgx.Rows) error, sql string, args ...any) error {
	var batch pgx.Batch
	s.Queue(&batch)
	batch.Queue(sql, args...).Query(read)
	return n.pool.conns.SendBatch(ctx, n.pool.pooler.bound(&batch)).Close()
}
