// Package app joins the machines into a server and takes them apart again. It
// is the only package that knows all of them.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/member"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/target"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

// Config is what an operator can set, and what is known about the program.
type Config struct {
	config.Config
	Version string // of this binary

	// Started is told of each attempt how late it began, for benchmarks; nil: nobody is.
	// Called by many goroutines at once.
	Started func(late time.Duration)

	// Scratch: the database is a benchmark's own, where a node may work as its owner.
	Scratch bool

	// Executable is this program with the arguments that make it a runner of
	// commands; nil: RunnerCommand alone.
	Executable []string

	commands *command.Target // nil: none are run here

	// Bootstrap is given the first key of the first namespace, if that has none yet;
	// nil: no key is made.
	Bootstrap func(secret string)
}

// Serve runs a node until ctx ends, and then stops it in order: the API takes no
// more requests, partitions are handed over, nothing more is claimed, what is
// under way ends and is reported, and only then the session ends. Health is
// answered from the start, also while the database is away.
func Serve(ctx context.Context, c Config, log *slog.Logger) (err error) {
	if c.Name == "" {
		c.Name, _ = os.Hostname() // a name for people; none will do too
	}
	if err := c.CheckListen(); err != nil {
		return err
	}
	m, h := newMetrics(c), &health{}
	w, err := listen(ctx, c, log, m, h)
	if err != nil {
		return err
	}
	defer w.stop(ctx)

	schema, err := awaitDatabase(ctx, c.DatabaseURL, log)
	if err != nil || ctx.Err() != nil {
		return err
	}
	options := postgres.Options{Observer: m}
	keys, err := readKeyset(c.Secrets)
	if err != nil {
		return err
	}
	if keys != nil {
		options.Sealer = keys
	}
	db, err := postgres.Open(ctx, c.DatabaseURL, c.Connections, options)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, c, db); err != nil {
		return err
	}
	if c.commands, err = startCommands(ctx, c, db.API(), log); err != nil {
		return err
	}
	if c.commands != nil {
		defer c.commands.Close()
	}
	if c.API.URL == "" {
		c.API.URL = w.url(c)
	}
	n, err := newNode(ctx, c, db, log, m)
	if err != nil {
		return err
	}
	api, err := postgres.Open(ctx, c.DatabaseURL, c.API.Connections, options)
	if err != nil {
		return err
	}
	defer api.Close()
	h.watch(ctx, n, schema)
	w.open(ctx, n.newAPI(api))
	log.Info("node started", "version", c.Version, "node", c.Name, "address", w.address, "tls", c.TLSCert != "",
		"database", config.Redact(c.DatabaseURL), "schema", schema, "partitions", job.Partitions)
	err = n.run(ctx)
	w.stop(ctx) // before the stores are closed: requests may be under way
	return err
}

// node is a running server: its machines, joined.
type node struct {
	config  Config
	db      *postgres.DB
	store   *postgres.Engine
	log     *slog.Logger
	member  *member.Member
	engine  *engine.Engine
	pull    *pull.Puller
	metrics *metrics
	bound   *clock.Bound
	targets map[string]target.Target

	reportKey []byte // of the cluster, for the tokens of runs
}

func newNode(ctx context.Context, c Config, db *postgres.DB, log *slog.Logger, m *metrics) (n *node, err error) {
	connect, err := guard.New(guard.Options{Allow: c.Targets.Allowed()})
	if err != nil {
		return nil, err
	}
	store := db.Engine()
	n = &node{config: c, db: db, store: store, log: log, bound: &clock.Bound{}, metrics: m}
	n.targets = target.New(target.Options{
		Guard: connect, Secrets: &secrets{read: db.API().Secret}, Report: n.report, Now: n.bound.Now,
		Command: c.commands, Gate: gate.Options{Slots: c.Slots, PerHost: c.Targets.PerHost},
	})
	if n.reportKey, err = store.ReportKey(ctx); err != nil {
		return nil, err
	}
	targets := map[string]engine.Target{}
	for kind, t := range n.targets {
		targets[kind] = t
	}
	n.member, err = member.New(member.Options{
		Store: db.Members(), Name: c.Name, Bound: n.bound, Log: log, TTL: c.SessionTTL, Interval: c.SessionTTL / 5,
		OnGain: func(ctx context.Context, gained []job.Ownership) { n.engine.GainPartitions(ctx, gained) },
		OnLose: func(lost []int16) { n.engine.DropPartitions(lost) },
	})
	if err != nil {
		return nil, err
	}
	n.engine = engine.New(engine.Options{
		Planner: store, Claimer: store, Completer: store, Queues: store, Limits: store, History: store, Pruner: store,
		Member: n.member, Targets: targets, Bound: n.bound, Log: log, Observe: m,
		Slots: c.Slots, LookAhead: c.LookAhead, KeepHistory: c.KeepHistory,
	})
	n.pull = pull.New(pull.Options{
		Store: store, Sessions: store, Bound: n.bound, TTL: c.WorkerTTL, Log: log, Observe: m,
	})
	m.watch(n)
	return n, nil
}

func (n *node) run(ctx context.Context) error {
	// The session is renewed until the engine has stopped.
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	membership := make(chan error, 1)
	go func() { membership <- n.member.Run(renewing) }()
	go n.background().Run(ctx)

	worked := make(chan error, 1)
	go func() { worked <- n.engine.Run(ctx, n.config.Drain) }()
	<-ctx.Done()
	n.log.Info("node stopping", "drain", n.config.Drain)
	n.pull.Stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.Drain+5*time.Second)
	defer cancel()
	err := n.member.Drain(last)
	err = errors.Join(err, <-worked)
	stopRenewing()
	<-membership
	if e := n.member.Close(last); e != nil {
		err = errors.Join(err, fmt.Errorf("stopped, but the session could not be ended, "+
			"so the other nodes take over when it expires: %w", e))
	}
	n.log.Info("node stopped", "completed", n.engine.Counts().Completed)
	return err
}
