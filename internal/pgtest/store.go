package pgtest

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/postgres"
)

// Store is every side of a database at once, for tests that play several parts.
type Store struct {
	*postgres.Engine
	*postgres.API
	*postgres.Members
	*postgres.Admin
	DB *postgres.DB
}

// NewStore returns every side of a migrated database. The caller keeps the
// connections.
func NewStore(conns *pgxpool.Pool) *Store { return StoreOf(postgres.New(conns, postgres.Options{})) }

// StoreOf returns every side of a database.
func StoreOf(db *postgres.DB) *Store {
	return &Store{db.Engine(), db.API(), db.Members(), db.Admin(), db}
}
