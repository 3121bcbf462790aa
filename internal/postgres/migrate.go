package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// Belfry uses its own names, because the database may be shared with another program that uses goose.
const (
	versionTable = "belfry_migration"
	lockTable    = "belfry_migration_lock"
)

const oldestServer = 15

// rolesMigration is the migration that creates and grants roles.
const rolesMigration = 2

// While another process migrates, this one checks every lockInterval, for at most patience.
const (
	patience     = 5 * time.Minute
	lockInterval = 200 * time.Millisecond
	lockTries    = uint64(patience / lockInterval)
)

// usedPause is how long Migrate waits before it retries to lock tables that are in use.
const usedPause = 5 * time.Second

//go:embed migration/*.sql
var files embed.FS

// Migrations returns the migration files.
func Migrations() fs.FS {
	sub, err := fs.Sub(files, "migration")
	if err != nil {
		panic(err) //nolint:forbidigo // only if the name above is not a valid path
	}
	return sub
}

// Migrate applies the migrations that the database at url does not have yet, and returns how many it applied.
// If several processes call it at the same time, one applies them, and the others wait and return 0. It leaves a
// database that is newer than this binary unchanged, because an old node may restart during an upgrade. [Version]
// distinguishes the two.
//
// Nodes may run meanwhile. While a migration waits for the lock of a table, they wait behind it, so each statement
// waits for half a second only. If another transaction uses the table for longer, such as a backup, Migrate calls
// waiting, which may be nil, and retries, for at most 5 minutes.
func Migrate(ctx context.Context, url string, waiting func(error)) (applied int, err error) {
	db, err := open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	if err := refuseOldSchema(ctx, db); err != nil {
		return 0, err
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableName(lockTable), lock.WithTableLockTimeout(lockInterval, lockTries))
	if err != nil {
		return 0, fmt.Errorf("create the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, Migrations(),
		goose.WithTableName(versionTable), goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	for end := clock.Elapsed() + patience; ; {
		results, err := provider.Up(ctx)
		if err == nil {
			return applied + len(results), nil
		}
		n, err := explain(err)
		applied += n
		if Code(err) != lockNotAvailable || clock.Elapsed() > end {
			return applied, err
		}
		if waiting != nil {
			waiting(err)
		}
		select {
		case <-time.After(usedPause):
		case <-ctx.Done():
			return applied, err
		}
	}
}

// Version returns the version of the schema in the database at url, 0 if it has none, and the latest version this
// binary knows. It writes nothing.
func Version(ctx context.Context, url string) (current, latest int64, err error) {
	if latest, err = LatestSchema(); err != nil {
		return 0, 0, err
	}
	db, err := open(ctx, url)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	if err := refuseOldSchema(ctx, db); err != nil {
		return 0, 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&current)
	if Code(err) == "42P01" { // undefined_table: never migrated
		return 0, latest, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema version: %w", err)
	}
	return current, latest, nil
}

// refuseOldSchema rejects a database of a development version whose migrations were numbered otherwise. By its number
// such a schema looks newer than this one.
func refuseOldSchema(ctx context.Context, db *sql.DB) error {
	var old bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass('hold') IS NOT NULL AND to_regclass('permit') IS NULL
AND to_regclass('`+versionTable+`') IS NOT NULL`).Scan(&old)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if old {
		return errors.New("the database has the schema of a development version that cannot be migrated;" +
			" drop the database, create it again and run: belfry migrate")
	}
	return nil
}

// open connects to the database at url and rejects a server that is too old.
func open(ctx context.Context, url string) (*sql.DB, error) {
	config, err := pool.Config(url)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config)

	var version int
	err = db.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int / 10000`).Scan(&version)
	if err == nil && version < oldestServer {
		err = fmt.Errorf("the server is PostgreSQL %d: Belfry needs %d or newer", version, oldestServer)
	}
	if err != nil {
		err = fmt.Errorf("connect to the database (is it running, and is the URL right?): %w", err)
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// explain adds to an error of goose how to fix it, and returns how many migrations were applied before it.
func explain(err error) (applied int, _ error) {
	step, hint := "migrate", "the user may not create tables here; as the owner of the database run"+
		" GRANT CREATE ON SCHEMA public TO that user"
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		applied = len(partial.Applied)
		step = fmt.Sprintf("apply migration %s (%d before it were applied; once the cause is removed, migrate again)",
			path.Base(partial.Failed.Source.Path), applied)
		if partial.Failed.Source.Version == rolesMigration {
			hint = "the user may not create or use Belfry's roles; as a superuser run CREATE ROLE belfry_api NOLOGIN;" +
				" CREATE ROLE belfry_engine NOLOGIN; (those that are missing)" +
				" GRANT belfry_api, belfry_engine TO that user WITH ADMIN OPTION"
		}
	}
	switch Code(err) {
	case "42501": // insufficient_privilege
		step += ": " + hint
	case lockNotAvailable:
		step += ": another transaction uses the table, for example a backup; wait for its end, or find it with" +
			" SELECT pid, usename, application_name, xact_start FROM pg_stat_activity ORDER BY xact_start"
	}
	return applied, fmt.Errorf("%s: %w", step, err)
}

const lockNotAvailable = "55P03" // SQLSTATE of a statement that waited for longer than lock_timeout

// Code is the SQLSTATE of an error of the server; empty: it is none.
func Code(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	return ""
}

// LatestSchema returns the version of the schema that this program needs.
func LatestSchema() (latest int64, err error) {
	names, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list the migrations: %w", err)
	}
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("read the number of migration %s: %w", name, err)
		}
		latest = max(latest, number)
	}
	return latest, nil
}
