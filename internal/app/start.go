package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

const (
	connectTime  = 5 * time.Second // for one try
	connectPause = 2 * time.Second // after one, at most
)

// awaitDatabase waits until the database answers, and refuses a schema that
// this binary does not know. It returns the schema's version; without an error
// also when ctx ends first. What needs somebody, such as a wrong password, is
// not waited for.
func awaitDatabase(ctx context.Context, url string, log *slog.Logger) (schema int64, err error) {
	var trouble telemetry.Trouble
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, connectPause) {
		current, latest, err := readVersion(ctx, url)
		switch {
		case ctx.Err() != nil:
			return 0, nil //nolint:nilerr // it was asked to stop: no failure
		case err == nil && current < latest:
			return 0, fmt.Errorf("the database's schema is at version %d and this belfry needs %d; run: belfry migrate", current, latest)
		case err == nil:
			trouble.Worked(log, "database answers")
			return current, nil
		case !postgres.MayPass(err):
			return 0, err
		}
		trouble.Failed(log, "waiting for the database", err, "again_in", pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func readVersion(ctx context.Context, url string) (current, latest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	return postgres.Version(ctx, url)
}

// prepare refuses a role that nothing would hold back, and makes what a node
// needs before it works.
func prepare(ctx context.Context, c Config, db *postgres.DB) error {
	if err := db.Admin().CheckRole(ctx); err != nil && !c.Scratch {
		return err
	}
	if err := db.Engine().MakeHistory(ctx, historyAhead); err != nil {
		return err
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
