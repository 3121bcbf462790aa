package archiving

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// The session of a command that exports days. A node of another process takes its day when it has expired.
const (
	runTTL   = 30 * time.Second
	runRenew = 5 * time.Second
	// runConnections: one exports, one renews the session.
	runConnections = 2
)

// Run exports the days that are over and not archived, now, as a node does. Nodes may do the same at the same
// time: each day has one owner. It returns how many days are left, which others export or whose end is too recent.
func Run(ctx context.Context, c *config.Config, report func(archiver.Progress)) (left int64, err error) {
	if c.Archive.URL == "" {
		return 0, ErrNoArchive
	}
	db, err := postgres.Open(ctx, c.DatabaseURL, runConnections, postgres.Options{})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	days := db.Archive()
	trusted, err := days.ClockTrusted(ctx)
	if err != nil {
		return 0, err
	}
	if !trusted {
		return 0, errors.New("no node has confirmed the clock of the database in the last 30 s; start a node, and try again")
	}
	session := uuid.New()
	if err := days.Begin(ctx, session, "belfry archive run", runTTL); err != nil {
		return 0, err
	}
	defer func() { // also if the caller has given up
		err = errors.Join(err, days.End(context.WithoutCancel(ctx), session))
	}()
	e := NewExport(c.Archive, days, func() uuid.UUID { return session }, slog.New(slog.DiscardHandler))
	if err := e.open(ctx); err != nil {
		return 0, err
	}
	e.work.Progress = report
	renewal := archiver.Renewal{Every: runRenew, TTL: runTTL, Extend: func(ctx context.Context) error {
		return days.Extend(ctx, session, runTTL)
	}}
	if err := renewal.Keeping(ctx, e.work.Drain); err != nil {
		return 0, err
	}
	return days.DaysBehind(ctx)
}
