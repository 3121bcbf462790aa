// Package clitest helps tests of the command line: it runs commands in the process, and starts an API on
// a database of its own for them.
package clitest

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
	"github.com/belfry-dev/belfry/internal/server"
)

// NewRoot is cli.New. This package does not import cli, so that the tests in cli can import it.
type NewRoot func(version string) *cobra.Command

// Run runs a command and returns both of its outputs.
func Run(t *testing.T, newRoot NewRoot, args ...string) (string, error) {
	t.Helper()
	root := newRoot("test")
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// API is a server to run commands against, and a key for it.
type API struct {
	T        *testing.T
	NewRoot  NewRoot
	URL, Key string
	store    *pgtest.Store
}

// New starts a real API on a database of its own, without a node. The key is an admin's.
func New(t *testing.T, newRoot NewRoot) *API {
	t.Helper()
	return On(t, newRoot, pgtest.New(t))
}

// On starts a real API on a database, without a node. The key is an admin's.
func On(t *testing.T, newRoot NewRoot, pool *pgxpool.Pool) *API {
	t.Helper()
	keys, err := seal.New()
	require.NoError(t, err)
	store := pgtest.StoreOf(postgres.New(pgtest.AsServer(t, pool), postgres.Options{Sealer: keys}))
	require.NoError(t, store.CreateHistory(t.Context(), 1))
	s := server.New(server.Options{
		Keys: store, Jobs: store, Verbs: store, Versions: store, Ledger: store, Load: store, Stories: store,
		Views: store, Overview: store, Live: store,
		DeadLetters: store, Operations: store, Logins: store,
		Queues: store, Secrets: store, Cluster: store, Audit: store, Quotas: store, Brokers: store,
		Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	_, secret, err := store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "test", Role: access.Admin, Actor: "test",
	})
	require.NoError(t, err)
	return &API{t, newRoot, web.URL, secret, store}
}

// Operate works on operations until the test ends, as nodes do.
func (a *API) Operate() {
	ctx, cancel := context.WithCancel(a.T.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = a.store.WorkOperation(ctx)
		}
	}()
	a.T.Cleanup(func() { cancel(); <-ended })
}

// Output is what a command printed.
type Output struct {
	Out, Err string
	Failure  error
}

// Belfry runs a command against the API, with an input.
func (a *API) Belfry(stdin string, args ...string) Output {
	a.T.Helper()
	root := a.NewRoot("test")
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append(args, "--server", a.URL, "--key", a.Key))
	err := root.ExecuteContext(a.T.Context())
	return Output{out.String(), errs.String(), err}
}

// Good runs a command that must succeed, and returns its output.
func (a *API) Good(args ...string) string {
	a.T.Helper()
	s := a.Belfry("", args...)
	require.NoError(a.T, s.Failure, s.Err)
	return s.Out
}
