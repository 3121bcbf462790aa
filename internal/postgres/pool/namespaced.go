package pool

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// asNamespace takes the role that row-level security binds to the namespace $1,
// until the end of the transaction.
const asNamespace Settings = `set_config('role', 'belfry_api', true), set_config('belfry.namespace', $1::uuid::text, true)`

// Scope is a namespace, and settings for its transaction.
type Scope struct {
	namespace uuid.UUID
	enter     string
}

// In is the scope of a namespace.
func In(namespace uuid.UUID, settings ...Settings) Scope {
	return Scope{namespace, Apply(append([]Settings{asNamespace}, settings...)...)}
}

// Enter makes the rest of a transaction that sees every namespace one of a scope.
// There is no way back.
func Enter(ctx context.Context, tx pgx.Tx, s Scope) error {
	_, err := tx.Exec(ctx, s.enter, s.namespace)
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
	batch.Queue(s.enter, s.namespace)
	batch.Queue(sql, args...).Query(read)
	return n.pool.conns.SendBatch(ctx, n.pool.pooler.bound(&batch)).Close()
}

// Queries reads the rows of several statements of a namespace with the same
// arguments, in one round trip and one transaction.
func (n Namespaced) Queries(ctx context.Context, s Scope, read func(pgx.Rows) error, args pgx.NamedArgs, sql ...string) error {
	var batch pgx.Batch
	batch.Queue(s.enter, s.namespace)
	for _, q := range sql {
		batch.Queue(q, args).Query(read)
	}
	return n.pool.conns.SendBatch(ctx, n.pool.pooler.bound(&batch)).Close()
}
