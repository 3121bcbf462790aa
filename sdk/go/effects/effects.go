// Package effects applies an effect in your own database once per run, although a run may be delivered twice:
// a worker may die before it reports, or the response of a webhook may be lost.
//
// The key of the run is written in the same transaction as the effect. Either both are committed or neither,
// and the second delivery finds the key. The package needs one table, see [Schema], and works with any
// PostgreSQL driver.
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	done, err := effects.Once(ctx, effects.SQL(tx), run.Key, func() error {
//		_, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance - $1 WHERE id = $2`, in.Amount, in.Account)
//		return err
//	})
//	…
//	err = tx.Commit()
package effects

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Schema creates the table if it does not exist.
const Schema = `CREATE TABLE IF NOT EXISTS belfry_effect (
	key     text PRIMARY KEY,
	done_at timestamptz NOT NULL DEFAULT now()
)`

// Exec executes a statement in a transaction and returns the number of rows it changed. With pgx:
//
//	func(ctx context.Context, query string, args ...any) (int64, error) {
//		tag, err := tx.Exec(ctx, query, args...)
//		return tag.RowsAffected(), err
//	}
type Exec func(ctx context.Context, query string, args ...any) (rows int64, err error)

// SQL returns the Exec of a database/sql transaction.
func SQL(tx *sql.Tx) Exec {
	return func(ctx context.Context, query string, args ...any) (int64, error) {
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
}

// Once calls effect if no transaction with the same key has been committed, and reports whether it did. If
// another transaction with the same key is in progress, Once waits for its end. If effect fails, roll back
// the transaction.
func Once(ctx context.Context, exec Exec, key string, effect func() error) (did bool, err error) {
	rows, err := exec(ctx, `INSERT INTO belfry_effect (key) VALUES ($1) ON CONFLICT DO NOTHING`, key)
	if err != nil {
		return false, fmt.Errorf("effects: insert the key (does the table exist? see effects.Schema): %w", err)
	}
	if rows == 0 {
		return false, nil
	}
	return true, effect()
}

// Prune deletes keys older than age, which must be longer than runs are retried or redriven.
func Prune(ctx context.Context, exec Exec, age time.Duration) (int64, error) {
	return exec(ctx, `DELETE FROM belfry_effect WHERE done_at < now() - $1 * interval '1 second'`, age.Seconds())
}
