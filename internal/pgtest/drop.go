package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxTrash bounds the databases that wait to be dropped, and so the connections a process uses to drop them.
const maxTrash = 16

// maxAge is the maximum age of databases of killed runs and failed tests.
const maxAge = 6 * time.Hour

// keepTemplates is enough for a few branches and server versions, at 8 MB each.
const keepTemplates = 8

// sweepLock is the key of the advisory lock for sweeping.
const sweepLock = templateLock + 1

// enter counts a test that has a database.
func (s *server) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live++
}

// leave ends a test's use of its database. The package comment says who drops it.
func (s *server) leave(name string, drop bool) error {
	s.mu.Lock()
	s.live--
	if drop {
		s.trash = append(s.trash, name)
	}
	var batch []string
	if s.live == 0 || len(s.trash) >= maxTrash {
		batch, s.trash = s.trash, nil
	}
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.drop(ctx, batch...)
}

// drop drops databases. A missing one is not an error.
func (s *server) drop(ctx context.Context, names ...string) error {
	return atOnce(names, func(name string) error {
		err := s.exec(ctx, fmt.Sprintf(`DROP DATABASE %s WITH (FORCE)`, quote(name)))
		if is(err, undefinedDatabase) {
			return nil
		}
		return err
	})
}

// atOnce calls do for all names at the same time.
func atOnce(names []string, do func(name string) error) error {
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { errs[i] = do(name) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// leftovers selects databases to drop: test databases that are too old and have no connections, and templates that are
// not among the most recently used.
const leftovers = `
WITH mine AS (SELECT oid, datname::text FROM pg_database WHERE pg_has_role(datdba, 'USAGE'))
(SELECT datname
FROM mine
WHERE datname ~ ('^' || $1 || '[0-9]{1,12}_')
  AND split_part(substr(datname, length($1) + 1), '_', 1)::bigint < extract(epoch FROM now()) - $3
  AND NOT EXISTS (SELECT FROM pg_stat_activity AS a WHERE a.datid = mine.oid)
LIMIT $5)
UNION ALL
(SELECT datname
FROM mine
WHERE starts_with(datname, $2)
ORDER BY shobj_description(oid, 'pg_database')::bigint DESC NULLS LAST
OFFSET $4
LIMIT $5)`

// sweep drops leftovers of earlier runs, at most maxTrash of each kind. The next process continues.
func (s *server) sweep(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, sweepLock).Scan(&mine); err != nil || !mine {
			return err
		}
		rows, err := tx.Query(ctx, leftovers, testPrefix, templatePrefix, int64(maxAge.Seconds()), keepTemplates,
			maxTrash)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		// No force and no error: another process may use or have dropped the database.
		_ = atOnce(names, func(name string) error {
			return s.exec(ctx,
				fmt.Sprintf(`ALTER DATABASE %s WITH IS_TEMPLATE false`, quote(name)),
				`DROP DATABASE `+quote(name))
		})
		return nil
	})
	return errors.Join(err, conn.Close(ctx))
}
