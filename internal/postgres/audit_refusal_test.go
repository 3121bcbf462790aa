package postgres_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestRefusals: the entries of refused requests name people, and do not name keys that share an entry.
func TestRefusals(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.StoreOf(postgres.New(pgtest.AsServer(t, pool), postgres.Options{}))
	ann := access.Principal{
		Key: uuid.New(), KeyName: "ann@example.com", Role: access.Viewer, Person: access.Person{Subject: "1"},
	}
	require.NoError(t, store.AuditRefusals(t.Context(), access.DefaultNamespace, []access.Refusal{
		{Principal: ann, Origin: access.Origin{Address: "192.0.2.1:4", Request: "r1"}, Count: 2, Operations: []string{"delete-job"}},
		{Count: 9, Operations: []string{"pause-job"}},
	}))
	rows, err := pool.Query(t.Context(), `
SELECT actor || ' ' || object || ' ' || coalesce(address, '') || ' ' || detail
FROM audit_log WHERE action = 'request.refuse' ORDER BY seq`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		ann.Actor() + " " + ann.ID() + ` 192.0.2.1:4 {"role":"viewer","count":2,"operations":["delete-job"]}`,
		`belfry other keys  {"count":9,"operations":["pause-job"]}`,
	}, got)
}
