package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/archiving"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
	"github.com/belfry-dev/belfry/internal/path/keep"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/store"
)

const (
	connectLimit    = 5 * time.Second        // timeout of one attempt
	connectPause    = 100 * time.Millisecond // after the first attempt, then doubling
	connectMaxPause = 2 * time.Second

	forDatabase = "waiting for the database"
	forSchema   = "waiting for the schema; run: belfry migrate"
	starting    = "starting; its log says what it waits for"

	prepareLimit = 65 * time.Second // timeout of one attempt; statements have a shorter one of their own
)

// awaitDatabase waits until the database answers and returns the version of its schema. If the schema is older than this
// binary needs, it waits for as long as the setting wait_for_schema says, and then fails. It also fails if waiting cannot
// help, such as with a wrong password or a schema that is too new. If ctx ends first it returns no error.
func awaitDatabase(ctx context.Context, c Config, h *health, log *slog.Logger) (schema int64, err error) {
	reportState(log, c.Systemd.Waiting(forDatabase))
	connect := loop.Loop{
		Name: "connect", Title: "database connection", Log: log,
		Backoff: loop.Backoff{Min: connectPause, Max: connectMaxPause},
		Once: func(ctx context.Context) (time.Duration, error) {
			if schema, err = readSchema(ctx, c.DatabaseURL); err != nil && (ctx.Err() != nil || store.MayPass(err)) {
				return 0, err
			}
			return 0, loop.ErrDone
		},
	}
	connect.Run(ctx)
	if ctx.Err() == nil && c.WaitForSchema > 0 && notMigrated(err) {
		schema, err = awaitSchema(ctx, c, h, log)
	}
	if ctx.Err() != nil {
		return 0, nil
	}
	h.wait(starting)
	reportState(log, c.Systemd.Waiting(starting))
	return schema, err
}

// awaitSchema waits until belfry migrate has run, and without a limit while the database is unreachable.
func awaitSchema(ctx context.Context, c Config, h *health, log *slog.Logger) (schema int64, err error) {
	h.wait(forSchema)
	reportState(log, c.Systemd.Waiting(forSchema))
	end := clock.Elapsed() + c.WaitForSchema
	loop.Loop{
		Name: "schema", Title: "schema check", Log: log,
		Backoff: loop.Backoff{Min: connectPause, Max: connectMaxPause},
		Once: func(ctx context.Context) (time.Duration, error) {
			schema, err = readSchema(ctx, c.DatabaseURL)
			if store.MayPass(err) || notMigrated(err) && clock.Elapsed() < end {
				return 0, err
			}
			return 0, loop.ErrDone
		},
	}.Run(ctx)
	return schema, err
}

// oldSchemaError says that the schema is older than this binary needs.
type oldSchemaError struct{ current, needed int64 }

func (e oldSchemaError) Error() string {
	return fmt.Sprintf("the database's schema is at version %d and this belfry needs %d; run: belfry migrate",
		e.current, e.needed)
}

// notMigrated reports whether belfry migrate fixes err. It creates the tables first and then lets the role of the nodes
// read them, so that between the two the database denies it (42501).
func notMigrated(err error) bool {
	_, old := errors.AsType[oldSchemaError](err)
	return old || store.Code(err) == "42501"
}

func readSchema(ctx context.Context, url string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	s, err := postgres.ReadSchema(ctx, url)
	switch {
	case err != nil:
	case s.Current < s.Needed:
		err = oldSchemaError{s.Current, s.Needed}
	case s.Oldest > s.Latest:
		err = fmt.Errorf("the database's schema is at version %d: a contract migration removed what this belfry uses, "+
			"which knows version %d; start one that knows version %d or newer", s.Current, s.Latest, s.Oldest)
	}
	return s.Current, err
}

// persist repeats a part of the start while the database is down or read-only, or another transaction locks what the node
// needs: a node that ended would leave its partitions to the others.
func persist(ctx context.Context, log *slog.Logger, once func(context.Context) error) error {
	err := context.Canceled // if ctx has ended, nothing runs
	loop.Loop{
		Name: "start", Title: "preparation", Log: log, Limit: prepareLimit,
		Backoff: loop.Backoff{Min: connectPause, Max: connectMaxPause},
		Once: func(ctx context.Context) (time.Duration, error) {
			err = once(ctx)
			readOnly := store.Code(err) == "25006"
			if err != nil && (ctx.Err() != nil || errors.Is(err, job.ErrInUse) || store.MayPass(err) || readOnly) {
				return 0, err
			}
			return 0, loop.ErrDone
		},
	}.Run(ctx)
	return err
}

// BootstrapLife is the life of a key that a node prints when it starts: its output is often a log that many can read.
const BootstrapLife = 24 * time.Hour

// prepare refuses an unsafe database role, and creates what a node needs before it works. The first key is not created
// again after a failure: a key that was created without an answer could not be printed.
func prepare(ctx context.Context, c Config, db *postgres.DB, log *slog.Logger) error {
	err := persist(ctx, log, func(ctx context.Context) error { return createNeeds(ctx, c, db, log) })
	if err != nil || c.Bootstrap == nil {
		return err
	}
	secret, err := db.Admin().FirstKey(ctx, access.DefaultNamespace, BootstrapLife)
	if err == nil && secret != "" {
		c.Bootstrap(secret)
	}
	return err
}

// createNeeds checks the role and creates what the node needs. It can be repeated.
func createNeeds(ctx context.Context, c Config, db *postgres.DB, log *slog.Logger) error {
	if err := db.Admin().CheckRole(ctx); err != nil && !c.Scratch {
		return err
	}
	if err := db.Engine().CreateHistory(ctx, keep.HistoryAhead); err != nil {
		return err
	}
	if a := c.Archive; a.URL != "" { // without an archive of its own, a node leaves it to the others
		if err := archiving.Require(ctx, a.Required, db.Archive(), log); err != nil {
			return err
		}
	}
	err := keepCanary(ctx, c.Canary, db)
	if err != nil && (!store.MayPass(err) || store.TimedOut(err)) { // a node works without it
		log.Warn("keeping the canary failed", "error", err)
		return nil
	}
	return err
}
