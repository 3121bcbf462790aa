package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/store"
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

// MigrateParams says which migrations to apply.
type MigrateParams struct {
	// Contract applies the contract migrations that are next, and no other. Without it, Migrate applies the others, up to
	// the next contract migration.
	Contract bool
	// All applies every migration. A database that no node has used gets all of them in any case.
	All bool
	// New is called if the database has no schema yet; nil: it is not.
	New func()
	// Waiting is called while Migrate waits for other transactions; nil: it is not.
	Waiting func(error)
}

// ErrContract is returned if a contract migration is next and later migrations were to be applied.
var ErrContract = errors.New("the previous upgrade is not finished: a contract migration comes before those that are" +
	" left; once no node of an older version runs, run: belfry migrate --contract, and then: belfry migrate")

// ErrExpand is returned if other migrations come before the contract migrations.
var ErrExpand = errors.New("migrations that nodes need come first; run: belfry migrate")

// Migrate applies the migrations that the database at url does not have yet, and returns how many it applied.
// If several processes call it at the same time, one applies them, and the others wait and return 0. It leaves a
// database that is newer than this binary unchanged, because an old node may restart during an upgrade. [ReadSchema]
// distinguishes the two.
//
// A contract migration removes what older nodes use. Migrations are applied in order, so those after a contract
// migration wait for it. It fails while a live node does not know it.
//
// Nodes may run meanwhile. While a migration waits for the lock of a table, they wait behind it, so each statement
// waits for half a second only. If another transaction uses the table for longer, such as a backup, or PostgreSQL ends
// the migration as a deadlock, Migrate calls Waiting and retries, for at most 5 minutes.
func Migrate(ctx context.Context, url string, p MigrateParams) (applied int, err error) {
	return migrate(ctx, url, Migrations(), p)
}

func migrate(ctx context.Context, url string, files fs.FS, p MigrateParams) (applied int, err error) {
	known, err := listMigrations(files)
	if err != nil {
		return 0, err
	}
	db, err := open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	if err := refuseUnreleased(ctx, db); err != nil {
		return 0, err
	}
	target, rest, err := selectTarget(ctx, db, known, p)
	if err != nil {
		return 0, err
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableName(lockTable), lock.WithTableLockTimeout(lockInterval, lockTries))
	if err != nil {
		return 0, fmt.Errorf("create the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	for end := clock.Elapsed() + patience; ; {
		results, err := provider.UpTo(ctx, target)
		if err == nil {
			return applied + len(results), rest
		}
		n, err := explain(err)
		applied += n
		if code := store.Code(err); code != store.LockNotAvailable && code != store.DeadlockDetected || clock.Elapsed() > end {
			return applied, err
		}
		if p.Waiting != nil {
			p.Waiting(err)
		}
		select {
		case <-time.After(usedPause):
		case <-ctx.Done():
			return applied, err
		}
	}
}

// selectTarget returns the last migration to apply, and the error to return after it if others should have followed.
func selectTarget(
	ctx context.Context, db *sql.DB, known []migration, p MigrateParams,
) (target int64, rest, err error) {
	if target, err = readVersion(ctx, db); err != nil {
		return 0, nil, err
	}
	if target == 0 && p.New != nil {
		p.New()
	}
	all := p.All || target == 0
	if !all {
		if err := db.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT FROM session)`).Scan(&all); err != nil {
			return 0, nil, fmt.Errorf("read the sessions: %w", err)
		}
	}
	pending := slices.DeleteFunc(known, func(m migration) bool { return m.number <= target })
	n := 0
	for ; n < len(pending) && (all || pending[n].contract == p.Contract); n++ {
		target = pending[n].number
	}
	needed := slices.ContainsFunc(pending[n:], func(m migration) bool { return !m.contract })
	switch {
	case p.Contract && n == 0 && needed:
		return target, ErrExpand, nil
	case !p.Contract && needed:
		return target, ErrContract, nil
	}
	return target, nil, nil
}

// migration is a migration that this program knows.
type migration struct {
	number   int64
	contract bool
}

var contractCall = regexp.MustCompile(`(?m)^SELECT belfry_contract\((\d+)\);$`)

// listMigrations returns the migrations in order. A contract migration is one that calls belfry_contract.
func listMigrations(files fs.FS) (out []migration, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("read the number of migration %s: %w", name, err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		call := contractCall.FindSubmatch(text)
		if call != nil && string(call[1]) != strconv.FormatInt(number, 10) {
			return nil, fmt.Errorf("migration %s calls belfry_contract with another number, %s", name, call[1])
		}
		out = append(out, migration{number: number, contract: call != nil})
	}
	slices.SortFunc(out, func(a, b migration) int { return cmp.Compare(a.number, b.number) })
	return out, nil
}

// Schema compares the schema of a database with what this program knows.
type Schema struct {
	Current int64 // its version; 0: it has none
	Needed  int64 // the version that a node of this program needs
	Latest  int64 // the last version that this program knows; after Needed come contract migrations only
	Oldest  int64 // a node must know this version, because a contract migration removed what older nodes use
}

// Advice says whether the schema is up to date, and what to run if it is not.
func (s Schema) Advice() string {
	switch {
	case s.Current < s.Needed:
		return fmt.Sprintf("the schema is at version %d, and not up to date; run: belfry migrate", s.Current)
	case s.Current < s.Latest:
		return fmt.Sprintf("the schema is up to date, at version %d; contract migrations are left: once all nodes are upgraded"+
			" and you will not roll back, run: belfry migrate --contract", s.Current)
	}
	return fmt.Sprintf("the schema is up to date, at version %d", s.Current)
}

// KnownSchema returns what this program knows.
func KnownSchema() (s Schema, err error) { return knownSchema(Migrations()) }

func knownSchema(files fs.FS) (s Schema, err error) {
	known, err := listMigrations(files)
	for _, m := range known {
		s.Latest = m.number
		if !m.contract {
			s.Needed = m.number
		}
	}
	return s, err
}

// ReadSchema compares the schema of the database at url with what this program knows. It writes nothing.
func ReadSchema(ctx context.Context, url string) (Schema, error) {
	return readSchema(ctx, url, Migrations())
}

func readSchema(ctx context.Context, url string, files fs.FS) (s Schema, err error) {
	if s, err = knownSchema(files); err != nil {
		return s, err
	}
	db, err := open(ctx, url)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	if err := refuseUnreleased(ctx, db); err != nil {
		return s, err
	}
	if s.Current, err = readVersion(ctx, db); err != nil || s.Current <= s.Latest {
		return s, err
	}
	if err := db.QueryRowContext(ctx, oldestSchema).Scan(&s.Oldest); err != nil {
		return s, fmt.Errorf("read the oldest schema that nodes must know: %w", err)
	}
	return s, nil
}

const oldestSchema = `SELECT oldest_schema FROM cluster WHERE only_row`

// readVersion returns the version of the schema; 0: there is none.
func readVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version)
	if store.Code(err) == "42P01" { // undefined_table: never migrated
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// unreleased is whether a version before 0.1.0 created the schema. The migrations of those had higher numbers, so by its
// number such a schema looks newer than this one.
const unreleased = `SELECT to_regproc('belfry_create_output') IS NOT NULL`

func refuseUnreleased(ctx context.Context, db *sql.DB) error {
	var old bool
	if err := db.QueryRowContext(ctx, unreleased).Scan(&old); err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if old {
		return errors.New("this database was created by a version before 0.1.0, and cannot be migrated; create a new one" +
			" (for belfry dev: with another directory in --data)")
	}
	return nil
}

// open connects to the database at url and rejects a server that is too old.
func open(ctx context.Context, url string) (*sql.DB, error) {
	config, err := store.Config(url)
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
	switch store.Code(err) {
	case "42501": // insufficient_privilege
		step += ": " + hint
	case store.LockNotAvailable, store.DeadlockDetected:
		step += ": another transaction uses the table, for example a backup; wait for its end, or find it with" +
			" SELECT pid, usename, application_name, xact_start FROM pg_stat_activity ORDER BY xact_start"
	}
	return applied, fmt.Errorf("%s: %w", step, err)
}
