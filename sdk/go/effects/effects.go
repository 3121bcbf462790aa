// Package effects makes an effect in your own database happen once for a run,
// though the run may be worked on twice: a worker that died before it could report,
// a webhook of which the answer was lost.
//
// The key of the run is written in the same transaction as the effect. Either both
// are there or neither, and who comes second finds the key. It needs one table, see
// [Schema], and works with any PostgreSQL driver.
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

// Schema makes the table. It may be run again.
const Schema = `CREATE TABLE IF NOT EXISTS belfry_effect (key text PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT now())`

// Exec sends a statement in a transaction and says how many rows it changed. With
// pgx:
//
//	func(ctx context.Context, query string, args ...any) (int64, error) {
//		tag, err := tx.Exec(ctx, query, args...)
//		return tag.RowsAffected(), err
//	}
type Exec func(ctx context.Context, query string, args ...any) (rows int64, err error)

// SQL is the Exec of a transaction of database/sql.
func SQL(tx *sql.Tx) Exec {
	return func(ctx context.Context, query string, args ...any) (int64, error) {
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
}

// Once calls effect if no transaction with the same key has been committed, and
// says whether it did. Who comes while another is under way waits for its end. If
// effect fails, roll the transaction back.
func Once(ctx context.Context, exec Exec, key string, effect func() error) (did bool, err error) {
	rows, err := exec(ctx, `INSERT INTO belfry_effect (key) VALUES ($1) ON CONFLICT DO NOTHING`, key)
	if err != nil {
		return false, fmt.Errorf("effects: note the key (is the table there? see effects.Schema): %w", err)
	}
	if rows == 0 {
		return false, nil
	}
	return true, effect()
}

// Prune forgets keys that are older than so long: longer than runs are retried or
// redriven.
func Prune(ctx context.Context, exec Exec, older time.Duration) (int64, error) {
	return exec(ctx, `DELETE FROM belfry_effect WHERE done_at < now() - $1 * interval '1 second'`, older.Seconds())
}
