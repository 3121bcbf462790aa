package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	awaitFirst = 100 * time.Millisecond // between the first tries
	awaitMost  = time.Second            // between later ones
	awaitLog   = 10 * time.Second       // between log lines
)

// await does what a node needs of the database before it can start, and tries
// again while the database is away: a node that starts beside its database, or
// while that is restarted, needs nobody to start it again. Any other error, a
// wrong password or schema, ends it at once.
func await(ctx context.Context, log *slog.Logger, start func() error) error {
	begun, logged := clock.Elapsed(), time.Duration(-1)
	for pause := awaitFirst; ; pause = min(2*pause, awaitMost) {
		err := start()
		if !postgres.Unreachable(err) || ctx.Err() != nil {
			return err
		}
		if now := clock.Elapsed(); logged < 0 || now-logged >= awaitLog {
			log.Warn("waiting for the database", "since", (now - begun).Round(time.Second), "error", err)
			logged = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
