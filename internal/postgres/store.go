package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Store is one shard: everything Belfry knows, in one database. It carries out
// decisions and makes none. Safe for concurrent use.
type Store struct {
	pool      *pgxpool.Pool
	schedules schedules
	observer  Observer // may be nil
	watch     watch
	lows      lows
	sealer    Sealer // may be nil
}

// The errors that callers tell apart.
var (
	// ErrNotFound says that there is no such thing.
	ErrNotFound = job.ErrNotFound
	// ErrConflict says that the name is taken or the version is not the one named.
	ErrConflict = job.ErrConflict
	// ErrSessionExpired says that a session is over: who has it must not work any longer.
	ErrSessionExpired = job.ErrSessionExpired
)

// NewStore makes a Store on a migrated database. The pool stays the caller's.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Open makes a Store with a pool of its own, for a server.
func Open(ctx context.Context, url string, connections int32) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL (want postgres://user@host:port/database): %w", err)
	}
	config.MaxConns = connections
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.ConnConfig.DialFunc = dial
	p := config.ConnConfig.RuntimeParams
	p["application_name"] = "belfry"
	// A node that is paused inside a transaction must not keep others waiting for its locks.
	p["idle_in_transaction_session_timeout"] = "5s"
	p["statement_timeout"] = "60s"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return NewStore(pool), nil
}

// Close closes the connections.
func (s *Store) Close() { s.pool.Close() }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// commitLimit is longer than statement_timeout: a commit that is merely slow is
// ended by the server. What is cut off by it is a server that hangs.
const (
	commitLimit   = 65 * time.Second
	rollbackLimit = 5 * time.Second
)

// inTx runs work in a transaction. A commit is not cancelled by ctx: a
// cancelled COMMIT leaves open whether the rows are there. Nor does it wait for ever.
func (s *Store) inTx(ctx context.Context, what string, work func(pgx.Tx) error) error {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	counted := &ledgerTx{Tx: tx, ended: map[end]int64{}, skipped: map[job.Reason]int64{}}
	if err := work(counted); err != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(limited) // the connection is closed if this fails too
		return fmt.Errorf("%s: %w", what, err)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	if err := tx.Commit(limited); err != nil {
		return fmt.Errorf("%s: commit: %w", what, err)
	}
	s.tell(counted)
	return nil
}

// keyLookups keeps PostgreSQL, for one transaction, from scanning or hashing a
// table where a hot statement looks rows up by key. The statistics of the live
// table are wrong most of the time; believing them once costs minutes. Nor may
// it compile the statement: 0.5 s of JIT, for 10 ms of work.
const keyLookups = `set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// asNamespace makes the rest of a transaction one of the namespace $1: whatever
// its statements say, they see and change the rows of that namespace alone.
const asNamespace = `set_config('role', 'belfry_api', true), set_config('belfry.namespace', $1::uuid::text, true)`

// inNamespace runs work in a transaction of a namespace.
func (s *Store) inNamespace(ctx context.Context, namespace uuid.UUID, what string, work func(pgx.Tx) error) error {
	return s.inTx(ctx, what, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT `+asNamespace, namespace); err != nil {
			return err
		}
		return work(tx)
	})
}

// query reads rows in a transaction of a namespace, in one round trip.
func (s *Store) query(ctx context.Context, namespace uuid.UUID, read func(pgx.Rows) error, sql string, args ...any) error {
	var batch pgx.Batch
	batch.Queue(`SELECT `+asNamespace, namespace)
	batch.Queue(sql, args...).Query(read)
	return s.pool.SendBatch(ctx, &batch).Close()
}

// maxSchedules bounds the cache of compiled schedules: about 100 MB.
const maxSchedules = 100_000

// schedules keeps compiled schedules by their canonical text. When it is full
// it starts anew: compiling costs microseconds, so nothing cleverer pays.
type schedules struct {
	mu   sync.Mutex
	byID map[string]*schedule.Schedule
}

func (c *schedules) get(text string) (*schedule.Schedule, error) {
	c.mu.Lock()
	s, ok := c.byID[text]
	c.mu.Unlock()
	if ok {
		return s, nil
	}
	var spec schedule.Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("read a stored schedule: %w", err)
	}
	s, err := schedule.New(spec, "")
	if err != nil {
		return nil, fmt.Errorf("compile a stored schedule: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil || len(c.byID) >= maxSchedules {
		c.byID = map[string]*schedule.Schedule{}
	}
	c.byID[text] = s
	return s, nil
}

func noRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
