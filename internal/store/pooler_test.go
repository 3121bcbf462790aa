package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/store"
)

const settings = `SELECT concat_ws(' ', current_setting('statement_timeout'),
	current_setting('idle_in_transaction_session_timeout'), current_setting('tcp_user_timeout'), $1::text)`

// bounded are the settings of every transaction: no lock outlives its client for long.
const bounded = "1min 5s 10000"

// inTx and inBatch read the settings of a transaction with BEGIN and of one without.
func inTx(t *testing.T, p *store.Pool) (got string, err error) {
	t.Helper()
	err = p.All().Tx(t.Context(), "read", func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), settings, "").Scan(&got)
	})
	return strings.TrimSpace(got), err
}

func inBatch(t *testing.T, p *store.Pool) (got string, err error) {
	t.Helper()
	var batch pgx.Batch
	batch.Queue(`SELECT pg_sleep(0)`)
	batch.Queue(settings, "").QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
	err = p.All().SendBatch(t.Context(), &batch).Close()
	return strings.TrimSpace(got), err
}

// Behind PgBouncer statements need no server connection of their own: many clients, which all send the same statements,
// share a few, and leave no setting on them.
func TestManyClientsShareConnectionsOfPgBouncer(t *testing.T) {
	t.Parallel()
	url := pgtest.ThroughPgBouncer(t, pgtest.URL(t))
	var clients errgroup.Group
	for c := range 3 {
		p := open(t, url, 4)
		for i := range 4 {
			clients.Go(func() error {
				for n := range 25 {
					if got, err := inTx(t, p); err != nil || got != bounded {
						return fmt.Errorf("in a transaction %q: %w", got, err)
					}
					if got, err := inBatch(t, p); err != nil || got != bounded {
						return fmt.Errorf("in a batch %q: %w", got, err)
					}
					name := fmt.Sprintf("n-%d-%d-%d", c, i, n)
					if _, err := p.All().Exec(t.Context(), write, name); err != nil {
						return fmt.Errorf("a statement of its own: %w", err)
					}
				}
				return nil
			})
		}
	}
	require.NoError(t, clients.Wait())
	conn, err := pgconn.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	results, err := conn.Exec(t.Context(), strings.ReplaceAll(settings, "$1::text", "''")).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "0 0 0", strings.TrimSpace(string(results[0].Rows[0][0])))
}

// A connection to PostgreSQL itself has the same bounds, and prepares statements.
func TestDirectConnectionsPrepareStatements(t *testing.T) {
	t.Parallel()
	p := open(t, pgtest.URL(t), 1)
	for _, read := range []func(*testing.T, *store.Pool) (string, error){inTx, inBatch} {
		got, err := read(t, p)
		require.NoError(t, err)
		require.Equal(t, bounded, got)
	}
	var prepared int
	err := p.All().QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements WHERE statement = $1`, settings).
		Scan(&prepared)
	require.NoError(t, err)
	require.Equal(t, 1, prepared)
}
