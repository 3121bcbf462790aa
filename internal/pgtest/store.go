package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// Store has all sides of a database, for tests that need several.
type Store struct {
	*postgres.Engine
	*postgres.API
	*postgres.Members
	*postgres.Admin
	*postgres.Operations
	*postgres.Views
	DB *postgres.DB
}

// NewStore returns all sides of a migrated database. The caller closes the pool.
func NewStore(conns *pgxpool.Pool) *Store { return StoreOf(postgres.New(conns, postgres.Options{})) }

// StoreOf returns all sides of a database.
func StoreOf(db *postgres.DB) *Store {
	return &Store{db.Engine(), db.API(), db.Members(), db.Admin(), db.Operations(), db.Views(), db}
}

// Own registers a session that owns all partitions, with the time of the database. There is a day of history for what ends.
func (s *Store) Own(t testing.TB) (session uuid.UUID, now clock.Sample) {
	t.Helper()
	session = uuid.New()
	err := s.CreateHistory(t.Context(), 1)
	if err == nil {
		now, err = s.Register(t.Context(), session, "node one", time.Hour)
	}
	var all []job.Ownership
	if err == nil {
		all, err = s.Ownerships(t.Context())
	}
	if err == nil {
		_, err = s.Take(t.Context(), session, all)
	}
	if err != nil {
		t.Fatalf("pgtest: own all partitions: %v", err)
	}
	return session, now
}

// AdmitOne decides about one run.
func (s *Store) AdmitOne(
	ctx context.Context, session uuid.UUID, key job.Key, lead time.Duration,
) (out job.Admitted, err error) {
	admitted, err := s.Admit(ctx, session, []job.Key{key}, lead)
	if err == nil {
		out = admitted[0]
	}
	return out, err
}

// ExpireSession is a statement that expires session $1 in a cluster whose nodes have been renewing all along, so that
// it may be ended at once.
const ExpireSession = `
UPDATE session SET renewed_at = now() - interval '1 h', expires_at = now(), alive = alive - interval '1 day'
WHERE id = $1`

// Outage is a statement that leaves the database as after an outage of three hours: no node renewed, and all sessions,
// whose TTL is an hour, have expired.
const Outage = `
WITH down AS (UPDATE cluster SET seen_at = now() - interval '3 h')
UPDATE session SET renewed_at = now() - interval '3 h', expires_at = now() - interval '2 h'`
