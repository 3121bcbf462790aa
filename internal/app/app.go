// Package app joins the machines into a server and takes them apart again. It
// is the only package that knows all of them.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/member"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/target"
)

// Config is what an operator can set.
type Config struct {
	DatabaseURL string
	Listen      string        // of health and metrics
	Name        string        // of this node, for people; default the host's
	Slots       int           // attempts at once
	Connections int32         // to the database
	KeepHistory time.Duration // days of history that are kept
	Drain       time.Duration // how long a stop waits for attempts

	// Started is told of each attempt how late it began, for benchmarks; nil: nobody is.
	// Called by many goroutines at once.
	Started func(late time.Duration)
}

// Migrate brings the database's schema up to date. It returns how many
// migrations were applied.
func Migrate(ctx context.Context, url string) (int, error) { return postgres.Migrate(ctx, url) }

// Serve runs a node until ctx ends, and then stops it in order: partitions are
// handed over, nothing more is claimed, what is under way ends and is reported,
// and only then the session ends.
func Serve(ctx context.Context, c Config, log *slog.Logger) (err error) {
	store, err := postgres.Open(ctx, c.DatabaseURL, c.Connections)
	if err != nil {
		return err
	}
	defer store.Close()
	err = await(ctx, log, func() error {
		if err := checkSchema(ctx, c.DatabaseURL); err != nil {
			return err
		}
		return store.MakeHistory(ctx, historyAhead)
	})
	switch {
	case ctx.Err() != nil:
		return nil // asked to stop before it had begun
	case err != nil:
		return err
	}
	n, err := newNode(c, store, log)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen for health and metrics: %w", err)
	}
	web := &http.Server{Handler: n.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = web.Serve(listener) }() // it returns when it is closed below
	defer func() { _ = web.Close() }()
	log.Info("serving", "address", listener.Addr().String())
	return n.run(ctx)
}

// checkSchema refuses to work on a schema that this binary does not know.
func checkSchema(ctx context.Context, url string) error {
	current, latest, err := postgres.Version(ctx, url)
	if err != nil {
		return err
	}
	if current < latest {
		return fmt.Errorf("the database's schema is at version %d and this belfry needs %d; run: belfry migrate", current, latest)
	}
	return nil
}

// node is a running server: its machines, joined.
type node struct {
	config  Config
	store   *postgres.Store
	log     *slog.Logger
	member  *member.Member
	engine  *engine.Engine
	metrics *metrics
	bound   *clock.Bound
}

func newNode(c Config, store *postgres.Store, log *slog.Logger) (n *node, err error) {
	if c.Name == "" {
		c.Name, _ = os.Hostname() // a name for people; none will do too
	}
	n = &node{config: c, store: store, log: log, bound: &clock.Bound{}, metrics: newMetrics(prometheus.NewRegistry(), c.Started)}
	targets := map[string]engine.Target{}
	for kind, t := range target.New(target.Options{}) {
		targets[kind] = t
	}
	n.member, err = member.New(member.Options{
		Store: store, Name: c.Name, Bound: n.bound, Log: log,
		OnGain: n.gained, OnLose: n.lost,
	})
	if err != nil {
		return nil, err
	}
	n.engine = engine.New(engine.Options{
		Planner: store, Claimer: store, Completer: store, Member: n.member, Targets: targets,
		Bound: n.bound, Log: log, Slots: c.Slots, Observe: n.metrics,
	})
	n.metrics.watch(n)
	return n, nil
}

func (n *node) run(ctx context.Context) error {
	// The session is renewed until the engine has stopped.
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	membership := make(chan error, 1)
	go func() { membership <- n.member.Run(renewing) }()
	go n.prune(ctx)

	worked := make(chan error, 1)
	go func() { worked <- n.engine.Run(ctx, n.config.Drain) }()
	<-ctx.Done()
	n.log.Info("stopping", "drain", n.config.Drain)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.Drain+5*time.Second)
	defer cancel()
	err := n.member.Drain(last)
	err = errors.Join(err, <-worked)
	stopRenewing()
	<-membership
	err = errors.Join(err, n.member.Close(last))
	n.log.Info("stopped", "completed", n.engine.Counts().Completed)
	return err
}
