package main

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
	"github.com/belfry-dev/belfry/internal/server"
)

// api is a real API on a database of its own, and an admin's key.
type api struct {
	t        *testing.T
	url, key string
}

func newAPI(t *testing.T) *api {
	t.Helper()
	return apiOn(t, pgtest.New(t))
}

// apiOn is an API on a database, without a node.
func apiOn(t *testing.T, pool *pgxpool.Pool) *api {
	t.Helper()
	keys, err := seal.New()
	require.NoError(t, err)
	store := pgtest.StoreOf(postgres.New(pgtest.AsServer(t, pool), postgres.Options{Sealer: keys}))
	require.NoError(t, store.MakeHistory(t.Context(), 1))
	s := server.New(server.Options{
		Keys: store, Jobs: store, Verbs: store, Ledger: store, Stories: store, DeadLetters: store, Operations: store,
		Queues: store, Secrets: store, Cluster: store, Audit: store, Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	namespace := uuid.MustParse("00000000-0000-7000-8000-000000000001")
	_, secret, err := store.CreateKey(t.Context(), access.KeyParams{Namespace: namespace, Name: "test", Role: access.Admin, Actor: "test"})
	require.NoError(t, err)
	return &api{t, web.URL, secret}
}

// said is what a command printed.
type said struct {
	out, err string
	failure  error
}

// belfry runs a command against the API, with an input.
func (a *api) belfry(stdin string, args ...string) said {
	a.t.Helper()
	root := newRoot()
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append(args, "--server", a.url, "--key", a.key))
	err := root.ExecuteContext(a.t.Context())
	return said{out.String(), errs.String(), err}
}

// good runs a command that must succeed, and returns what it printed.
func (a *api) good(args ...string) string {
	a.t.Helper()
	s := a.belfry("", args...)
	require.NoError(a.t, s.failure, s.err)
	return s.out
}
