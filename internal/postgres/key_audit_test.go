package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestKeysInTheAuditLog: the entry of a new key says when it expires, or that it never does.
func TestKeysInTheAuditLog(t *testing.T) {
	t.Parallel()
	store := pgtest.StoreOf(postgres.New(pgtest.AsServer(t, pgtest.New(t)), postgres.Options{}))
	params := access.KeyParams{Namespace: access.DefaultNamespace, Name: "k", Role: access.Viewer, Actor: "test"}
	_, _, err := store.CreateKey(t.Context(), params)
	require.NoError(t, err)
	params.ExpiresIn = time.Hour
	k, _, err := store.CreateKey(t.Context(), params)
	require.NoError(t, err)

	page, err := store.Audit(t.Context(), access.AuditParams{Namespace: access.DefaultNamespace, Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2)
	expires, err := json.Marshal(k.ExpiresAt)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"k","role":"viewer","expires_at":`+string(expires)+`}`, page.Entries[0].Detail)
	require.JSONEq(t, `{"name":"k","role":"viewer","expires_at":null}`, page.Entries[1].Detail)
}
