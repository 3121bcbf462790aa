// Package app wires the parts of a node together, starts them and stops them in order. It is the only
// package that imports all of them.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/app/brokers"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/app/reportkey"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/member"
	"github.com/belfry-dev/belfry/internal/path/keep"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/server/refusal"
	"github.com/belfry-dev/belfry/internal/systemd"
	"github.com/belfry-dev/belfry/internal/target"
	"github.com/belfry-dev/belfry/internal/target/command"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/tracing"
)

// Config is the configuration of an operator, plus what the program itself sets.
type Config struct {
	config.Config
	Version string // of this binary

	// Started is called with the delay of each attempt, for benchmarks; may be nil. Many goroutines call it
	// at the same time.
	Started func(late time.Duration)

	// SweepPause is the pause between sweeps, for tests; 0: the default.
	SweepPause time.Duration
	// WakeBack is how long ago a run that a wake-up finds may have become due, for tests; 0: the default.
	WakeBack time.Duration
	// Scratch allows a node to work as the owner of its database. It is for benchmarks, which own theirs.
	Scratch bool

	// NoPublicTargets makes public addresses need an entry of targets.allow too.
	NoPublicTargets bool

	// Executable is this program with the arguments that make it a runner of commands. Default: this
	// program with RunnerCommand.
	Executable []string

	commands  *command.Target // nil if commands are off
	listening []string        // its own addresses
	wakes     *wakes          // nil: of a store that reports no runs
	tracer    *tracing.Tracer // nil if tracing is off

	// Systemd reports to the service manager; may be nil.
	Systemd *systemd.Notifier

	// UI serves the web UI, below /ui/. nil: a page that says how to build it.
	UI http.Handler
	// LoginCode logs in to the UI without a key; nil: no code does.
	LoginCode *LoginCode

	// Bootstrap is called with the first key of the default namespace if that has no key yet. If it is nil,
	// no key is created.
	Bootstrap func(secret string)
}

// Serve runs a node until ctx ends and then stops it in order: the API rejects new requests, the node
// hands over its partitions and claims nothing more, attempts in progress end and are reported, and only
// then the session ends. Health is served from the start, even while the database is down.
func Serve(ctx context.Context, c Config, log *slog.Logger) (err error) {
	if c.Name == "" {
		c.Name, _ = os.Hostname() // the name is only for people, so it may stay empty
	}
	if err := c.CheckListen(); err != nil {
		return err
	}
	running := false
	defer func() {
		if !running && ctx.Err() != nil {
			err = nil // asked to stop while it started: what failed then failed because of that
		}
	}()
	m, h := newMetrics(c), &health{waiting: forDatabase}
	w, err := listen(ctx, c, log, m, h)
	if err != nil {
		return err
	}
	defer w.stop(ctx)

	schema, err := awaitDatabase(ctx, c, h, log)
	if err != nil || ctx.Err() != nil {
		return err
	}
	c.wakes = newWakes()
	if c.tracer, err = newTracer(c, log); err != nil {
		return err
	}
	options, info, err := storeOptions(c, m)
	if err != nil {
		return err
	}
	db, err := postgres.Open(ctx, c.DatabaseURL, c.Connections, options)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, c, db, log); err != nil {
		return err
	}
	if c.commands, err = startCommands(ctx, c, commandStore{db.API(), db.Views()}, log); err != nil {
		return err
	}
	if c.commands != nil {
		defer c.commands.Close()
	}
	if c.listening = w.addresses; c.API.URL == "" {
		c.API.URL = w.url(c)
	}
	defer startTracer(ctx, c.tracer, db.Admin())()
	n, err := newNode(ctx, c, db, log, m)
	if err != nil {
		return err
	}
	info.Kinds = slices.Sorted(maps.Keys(n.targets)) // before the session is registered
	options.SecretsOf = target.Checks{Targets: n.targets}.Secrets
	api, err := postgres.Open(ctx, c.DatabaseURL, c.API.Connections, options)
	if err != nil {
		return err
	}
	defer api.Close()
	h.watch(ctx, n, schema)
	w.open(ctx, m.watchAPI(n.newAPI(api)))
	log.Info("node started", "version", c.Version, "node", c.Name, "address", w.addresses[0], "tls", c.TLSCert != "",
		"database", config.Redact(c.DatabaseURL), "schema", schema, "partitions", job.Partitions)
	running = true
	err = n.run(ctx)
	w.stop(ctx) // before the stores close, because requests may be in progress
	return err
}

// storeOptions returns what the two stores of a node share, and what the node reports about itself in its session.
func storeOptions(c Config, m *metrics) (o postgres.Options, info *doctor.Node, err error) {
	keys, err := database.ReadKeyset(c.Secrets.Keyset)
	if err != nil {
		return o, nil, err
	}
	node, err := nodeInfo(c, keys)
	if err != nil {
		return o, nil, err
	}
	o = postgres.Options{
		Observer: m, Process: job.NewProcess(), Servers: &postgres.Servers{}, OnWake: c.wakes.written, Node: &node,
	}
	if keys != nil {
		o.Sealer = keys
	}
	if c.tracer != nil {
		o.OnEnded = c.tracer.Ended
	}
	return o, &node, nil
}

// node is a running server: all its parts.
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
	secrets *secret.Cache
	wakes   *wakes

	refusals   refusal.Log
	reportKeys *reportkey.Ring
	process    uuid.UUID // whose statistics are its own
	stats      sync.Mutex
	audited    int64 // occurrences that the statistics have
}

// guard decides where targets may connect to. They may not connect to the database, or to this node itself.
func (c *Config) guard(db *postgres.Views, log *slog.Logger) (*guard.Guard, error) {
	hosts, err := postgres.Hosts(c.DatabaseURL)
	if err != nil {
		return nil, err
	}
	own, t := slices.Concat(hosts, c.listening), c.Targets
	return guard.New(guard.Options{
		Allow: t.Allowed(), Deny: t.Denied(), Own: own, NoPublic: c.NoPublicTargets, Namespace: db.NamespaceName,
		Unresolved: func(host string, err error) {
			log.Warn("lookup of a database host failed, targets may connect to it", "host", host, "error", err)
		},
	})
}

func newNode(ctx context.Context, c Config, db *postgres.DB, log *slog.Logger, m *metrics) (n *node, err error) {
	connect, err := c.guard(db.Views(), log) //nolint:contextcheck // it resolves names for a limited time
	if err != nil {
		return nil, err
	}
	store := db.Engine()
	n = &node{config: c, db: db, store: store, log: log, bound: m.bound, metrics: m, process: uuid.New()}
	n.secrets = secret.NewCache(db.API(), log)
	n.targets = target.New(target.Options{
		Guard: connect, Secrets: n.secrets, Report: n.report, Now: n.bound.Now,
		Brokers: brokers.New(db.API(), log), Encrypted: c.Targets.SecretsInClear == config.Refuse,
		Command: c.commands, Gate: gate.Options{Slots: c.Slots, PerHost: c.Targets.PerHost},
	})
	err = persist(ctx, log, func(ctx context.Context) (err error) {
		n.reportKeys, err = reportkey.Read(ctx, db.Admin(), log)
		return err
	})
	if err != nil {
		return nil, err
	}
	targets := map[string]engine.Target{}
	for kind, t := range n.targets {
		targets[kind] = t
	}
	members := db.Members()
	members.OnFailover, members.OnRestore = n.failedOver, n.restored
	members.Slots = func() (all, free int) { return c.Slots, n.engine.Counts().Free }
	n.member, err = member.New(member.Options{
		Store: members, Clock: members, Process: db.Process(), Name: c.Name, Bound: n.bound, Log: log,
		TTL: c.SessionTTL, Interval: min(c.SessionTTL/5, time.Second), // postgres.Members relies on the second
		OnRound: n.round,
		OnGain:  func(ctx context.Context, gained []job.Ownership) { n.engine.GainPartitions(ctx, gained) },
		OnLose:  func(lost []int16) { n.engine.DropPartitions(lost) },
	})
	if err != nil {
		return nil, err
	}
	options := engine.Options{
		Planner: store, Claimer: store, Completer: store, Queues: store, Limits: store,
		Auditor: store, Leases: db.Admin(), Namespaces: db.Admin(),
		Member: n.member, Targets: targets, Bound: n.bound, Log: log, Observe: m, OnRound: n.round,
		Slots: c.Slots, LookAhead: c.LookAhead, SweepPause: c.SweepPause, WakeBack: c.WakeBack,
		More: keep.NewKeeper(keep.Options{
			Store: store.Keep(), Session: n.member.Session, ZoneRules: zoneRules(zoneSources()), LookAhead: c.LookAhead,
			Retention: c.KeepHistory, Log: log,
		}).Loops(),
	}
	if c.tracer != nil {
		options.Tracer = c.tracer
	}
	n.engine = engine.New(options)
	n.pull = pull.New(pull.Options{
		Store: store, Sessions: store, Handlers: db.API(), Bound: n.bound, TTL: c.WorkerTTL, Log: log, Observe: m,
		Connections: int(c.Connections),
	})
	n.refusals.Write = db.API().AuditRefusals
	n.wakes = cmp.Or(c.wakes, newWakes())
	n.wakes.start(n)
	m.watch(n)
	return n, nil
}

func (n *node) run(ctx context.Context) error {
	// The session is renewed until the engine has stopped.
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	membership := make(chan error, 1)
	go func() { membership <- n.member.Run(renewing) }()
	background := make(chan struct{})
	go func() {
		defer close(background)
		n.background().Run(ctx)
		n.wakes.close(ctx)
	}()

	reportState(n.log, n.config.Systemd.Ready(working))
	go n.config.Systemd.Beat(ctx)
	worked := make(chan error, 1)
	go func() { worked <- n.engine.Run(ctx, n.config.Drain) }()
	<-ctx.Done()
	n.log.Info("node stopping", "drain", n.config.Drain)
	reportState(n.log, n.config.Systemd.Stopping("handing over"))
	n.pull.Stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.Drain+5*time.Second)
	defer cancel()
	err := n.member.Drain(last)
	err = errors.Join(err, <-worked)
	if e := n.writeStats(last, true); e != nil {
		n.log.Warn("the last statistics of this node are lost", "error", e)
	}
	select {
	case <-background: // what it could not write any more is written here
	case <-last.Done():
	}
	if _, e := n.refusals.Once(last); e != nil {
		n.log.Warn("the last refused requests are not in the audit log", "error", e)
	}
	stopRenewing()
	<-membership
	if e := n.member.Close(last); e != nil {
		err = errors.Join(err, fmt.Errorf("stopped, but the session could not be ended, "+
			"so the other nodes take over when it expires: %w", e))
	}
	n.log.Info("node stopped", "completed", n.engine.Counts().Completed)
	return err
}
