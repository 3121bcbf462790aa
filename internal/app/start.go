package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	connectLimit    = 5 * time.Second        // timeout of one attempt
	connectPause    = 100 * time.Millisecond // after the first attempt, then doubling
	connectMaxPause = 2 * time.Second
)

// awaitDatabase waits until the database answers and returns the version of its schema. It fails if
// this binary does not know that schema, or if waiting cannot help, such as with a wrong password. If
// ctx ends first it returns no error.
func awaitDatabase(ctx context.Context, c Config, log *slog.Logger) (schema int64, err error) {
	reportState(log, c.Systemd.Waiting("waiting for the database"))
	loop.Loop{
		Name: "connect", Title: "database connection", Log: log,
		Backoff: loop.Backoff{Min: connectPause, Max: connectMaxPause},
		Once: func(ctx context.Context) (time.Duration, error) {
			current, latest, failed := readVersion(ctx, c.DatabaseURL)
			switch {
			case failed == nil && current < latest:
				err = fmt.Errorf("the database's schema is at version %d and this belfry needs %d; run: belfry migrate",
					current, latest)
			case failed == nil:
				schema = current
			case ctx.Err() == nil && !postgres.MayPass(failed):
				err = failed
			default:
				return 0, failed
			}
			return 0, loop.ErrDone
		},
	}.Run(ctx)
	return schema, err
}

func readVersion(ctx context.Context, url string) (current, latest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	return postgres.Version(ctx, url)
}

// createHistory creates the days of history, which a node needs to work. While another transaction locks the history, it
// keeps trying: a node that ended would leave its partitions to the others.
func createHistory(ctx context.Context, db *postgres.DB, log *slog.Logger) (err error) {
	loop.Loop{
		Name: "history", Title: "preparation of history", Log: log,
		Backoff: loop.Backoff{Min: connectPause, Max: connectMaxPause},
		Once: func(ctx context.Context) (time.Duration, error) {
			err = db.Engine().CreateHistory(ctx, engine.HistoryAhead)
			if errors.Is(err, job.ErrInUse) {
				return 0, err
			}
			return 0, loop.ErrDone
		},
	}.Run(ctx)
	return err
}

// prepare refuses a database role that bypasses row-level security, and creates what a node needs before
// it works.
func prepare(ctx context.Context, c Config, db *postgres.DB, log *slog.Logger) error {
	if err := db.Admin().CheckRole(ctx); err != nil && !c.Scratch {
		return err
	}
	if err := createHistory(ctx, db, log); err != nil {
		return err
	}
	if err := keepCanary(ctx, c.Canary, db); err != nil { // a node works without it
		log.Warn("keeping the canary failed", "error", err)
	}
	if c.Bootstrap == nil {
		return nil
	}
	secret, err := db.Admin().FirstKey(ctx, access.DefaultNamespace)
	if err == nil && secret != "" {
		c.Bootstrap(secret)
	}
	return err
}
