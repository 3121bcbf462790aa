package postgres

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/path/keep"
	"github.com/belfry-dev/belfry/internal/path/start"
	"github.com/belfry-dev/belfry/internal/store"
)

// DB is everything Belfry knows, in one PostgreSQL database. Callers use
// one of its four sides (Engine, API, Members, Admin), each of which sees no more
// than its work needs. Wakes reads and writes no table. Safe for concurrent use.
type DB struct {
	pool      *store.Pool
	members   *store.Pool // of Members alone, unless the caller opened the connections
	process   job.Process
	schedules *store.Schedules
	sealer    Sealer
	node      *doctor.Node
	secretsOf func(job.Target) []string
}

// Options of a DB.
type Options struct {
	Observer store.Observer // counts what enters the ledger; nil: none
	Sealer   Sealer         // encrypts secrets and seals audit entries; nil: secrets can only be listed and deleted
	Node     *doctor.Node   // what the node reports about itself in its session; nil: nothing
	Process  job.Process    // whose connections they are; the zero value for a command that has no session
	Servers  *Servers       // shared with another DB of the process; nil: its own
	// SecretsOf returns the names of the secrets that a target uses, for the audit log; nil: none.
	SecretsOf func(job.Target) []string
	// OnWake is called after each commit that wrote runs which are due immediately; may be nil. It must not block.
	OnWake func(job.Wake)
	// OnEnded is called after each commit that ended runs which had an attempt; may be nil. It must not block.
	OnEnded func([]job.End)
}

// Servers is what a process knows about the servers of a database.
type Servers = store.Servers

// Refusals are the causes why a server cannot write, by SQLSTATE.
var Refusals = store.Refusals

// New returns a DB on a migrated database. The caller keeps and closes the connections.
func New(conns *pgxpool.Pool, o Options) *DB {
	p := store.New(conns, store.Options{Observer: o.Observer, OnWake: o.OnWake, OnEnded: o.OnEnded, Servers: o.Servers})
	return newDB(p, p, o)
}

// CheckLink returns an error if a connection by this URL could lead over a network without verified TLS.
func CheckLink(url string) error { return store.CheckLink(url) }

// Hosts returns the hosts of a URL, each with its port. Sockets are left out.
func Hosts(url string) ([]string, error) { return store.Hosts(url) }

// MemberConnections are for sessions and partitions: one for renewals and one for changes of ownership, which may wait
// for a lock. However busy the others are, a session is renewed in time.
const MemberConnections = 2

// ListenConnections are for wake-ups, of a node that is not behind a pooler.
const ListenConnections = 1

// Open returns a DB with connections of its own, and two more for Members if that is used.
func Open(ctx context.Context, url string, connections int32, o Options) (*DB, error) {
	options := store.Options{
		Connections: connections, Application: o.Process.Application(), Observer: o.Observer,
		OnWake: o.OnWake, OnEnded: o.OnEnded, Servers: cmp.Or(o.Servers, &Servers{}),
	}
	p, err := store.Open(ctx, url, options)
	if err != nil {
		return nil, err
	}
	options.Connections = MemberConnections
	members, err := store.Open(ctx, url, options)
	if err != nil {
		p.Close()
		return nil, err
	}
	return newDB(p, members, o), nil
}

func newDB(p, members *store.Pool, o Options) *DB {
	return &DB{
		pool: p, members: members, process: o.Process, schedules: &store.Schedules{}, sealer: o.Sealer, node: o.Node,
		secretsOf: o.SecretsOf,
	}
}

// Close closes the connections.
func (d *DB) Close() {
	d.pool.Close()
	d.members.Close()
}

// Process returns the process that the connections belong to.
func (d *DB) Process() job.Process { return d.process }

// Ping returns an error if the database does not answer.
func (d *DB) Ping(ctx context.Context) error { return d.pool.Ping(ctx) }

// Engine has the statements of the path of a run: plan, start, finish and
// keep. It sees all namespaces. It keeps state between calls, so the loops of a node
// have one. The API has another one, for reports of targets and limits of queues.
type Engine struct {
	*startStore
	*finishStore
	*keepStore
	db           store.All
	api          *API // for what the engine does in the name of a namespace
	schedules    *store.Schedules
	sealer       Sealer
	lastCompared lastCompared
	resumes      searchMarks // of pauses that end
	cursors      searchMarks // by plan_at
	sessions     sessionCounts
	planned      planTurns
	turn         atomic.Pointer[uuid.UUID] // the namespace whose operation was worked on last
}

// The steps of a run that have a package of their own.
type (
	startStore  = start.Store
	finishStore = finish.Store
	keepStore   = keep.Store
)

// Engine returns a new Engine.
func (d *DB) Engine() *Engine {
	api := d.API()
	return &Engine{
		startStore:  start.New(d.pool.All()),
		finishStore: finish.New(d.pool.All(), d.pool.Namespaced(), api.PauseJob),
		keepStore:   keep.NewStore(d.pool.All(), d.schedules),
		db:          d.pool.All(), api: api, schedules: d.schedules, sealer: d.sealer,
	}
}

// Finish returns the statements that write the outcome of attempts.
func (e *Engine) Finish() *finish.Store { return e.finishStore }

// Keep returns the statements that remove what is over.
func (e *Engine) Keep() *keep.Store { return e.keepStore }

// API has what users ask for. Each call is a transaction of one namespace, under
// row-level security. The only exception is indexSearch, which cannot be used for
// anything but its statements.
type API struct {
	db        store.Namespaced
	index     indexSearch
	schedules *store.Schedules
	sealer    Sealer
	log       auditLog
	loads     loadBounds
	step      *operationStep // of the operation that changes are part of; nil: of none
}

// API returns an API.
func (d *DB) API() *API {
	return &API{
		db: d.pool.Namespaced(), index: engineSearch{d.pool.All()}, schedules: d.schedules, sealer: d.sealer,
		log: auditLog{d.sealer, d.secretsOf}, loads: defaultLoadBounds,
	}
}

// Views reads jobs and their ledger as people look at them, many rows at once. Each call is a transaction of one
// namespace, under row-level security.
type Views struct{ db store.Namespaced }

// Views returns a Views.
func (d *DB) Views() *Views { return &Views{d.pool.Namespaced()} }

// Members has the sessions of nodes and the ownership of partitions. It keeps state
// between calls, so a node has one.
type Members struct {
	db         store.All
	log        auditLog
	node       *doctor.Node
	OnFailover func(job.Failover) // called when a renewal notices that the database failed over; may be nil
	OnRestore  func(job.Restore)  // called when a renewal notices that the database was restored; may be nil
	last       lastRenewal
	// Slots returns how many slots the node has, and how many of them are free; nil: renewals do not report them.
	Slots func() (all, free int)
}

// Members returns a new Members.
func (d *DB) Members() *Members {
	return &Members{db: d.members.All(), log: auditLog{sealer: d.sealer}, node: d.node}
}

// Admin has what concerns the whole database: namespaces, keys before their
// namespace is known, the schema, roles and the nodes that are alive.
type Admin struct {
	db  store.All
	api *API
}

// Admin returns an Admin.
func (d *DB) Admin() *Admin { return &Admin{d.pool.All(), d.API()} }

// PoolStats is how busy the connections are.
type PoolStats struct {
	Acquired, Idle, Max int32
	Waits               int64         // times that all were busy
	Waited              time.Duration // in all
}

// PoolStats returns how busy the connections are.
func (d *DB) PoolStats() PoolStats {
	p := d.pool.Stat()
	return PoolStats{
		Acquired: p.AcquiredConns(), Idle: p.IdleConns(), Max: p.MaxConns(),
		Waits: p.EmptyAcquireCount(), Waited: p.EmptyAcquireWaitTime(),
	}
}
