package pgtest

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/postgres"
)

// Store has all sides of a database, for tests that need several.
type Store struct {
	*postgres.Engine
	*postgres.API
	*postgres.Members
	*postgres.Admin
	DB *postgres.DB
}

// NewStore returns all sides of a migrated database. The caller closes the pool.
func NewStore(conns *pgxpool.Pool) *Store { return StoreOf(postgres.New(conns, postgres.Options{})) }

// StoreOf returns all sides of a database.
func StoreOf(db *postgres.DB) *Store {
	return &Store{db.Engine(), db.API(), db.Members(), db.Admin(), db}
}
