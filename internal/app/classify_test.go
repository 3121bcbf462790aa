package app

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/server/rest"
)

// TestASlowStatementIsNotAnUnreachableDatabase: the client can ask for less.
func TestASlowStatementIsNotAnUnreachableDatabase(t *testing.T) {
	t.Parallel()
	require.Equal(t, rest.Slow, classify(&pgconn.PgError{Code: "57014"}))
	require.Equal(t, rest.Unreachable, classify(&pgconn.PgError{Code: "57P01"}))
}
