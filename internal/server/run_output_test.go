package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
)

// writingRun is a run in progress that has written nothing until wrote.
type writingRun struct {
	server.Ledger
	reads chan uuid.UUID // the namespace of each request that reads
	wrote atomic.Bool
}

func (*writingRun) Run(context.Context, uuid.UUID, job.Key) ([]job.Entry, error) {
	return []job.Entry{{Status: job.StatusRunning, Attempt: 1}}, nil
}

func (w *writingRun) Outputs(_ context.Context, namespace uuid.UUID, _ job.Key) ([]job.Output, error) {
	wrote := w.wrote.Load()
	w.reads <- namespace
	if !wrote {
		return nil, nil
	}
	return []job.Output{{Attempt: 1, Text: "later", Total: 5}}, nil
}

// awaitRead waits until a request of a namespace has read.
func (w *writingRun) awaitRead(namespace uuid.UUID) {
	for of := range w.reads {
		if of == namespace {
			return
		}
	}
}

func setupOutput(t *testing.T) (b *bundle, w *writingRun, read func(key string) <-chan answer) {
	t.Helper()
	b = &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	w = &writingRun{reads: make(chan uuid.UUID, 10_000)}
	web := httptest.NewServer(server.New(server.Options{Keys: b.store, Audit: b.store, Ledger: w}).Handler())
	t.Cleanup(web.Close)
	b.url, b.key = web.URL+"/api/v1", b.newKey(defaultNamespace, access.Admin)
	run := job.FormatRunID(job.Key{Job: uuid.New(), DueAt: time.Unix(1, 0)})
	return b, w, func(key string) <-chan answer {
		got := make(chan answer, 1)
		go func() { got <- b.callAs(key, "GET", "/runs/"+run+"/output?wait=20", "") }()
		return got
	}
}

// TestOutputEndsWithItsKey: a request that waits gets nothing that was written after its key was revoked.
func TestOutputEndsWithItsKey(t *testing.T) {
	t.Parallel()
	b, w, read := setupOutput(t)
	made := b.call("POST", "/keys", `{"name":"k","role":"viewer"}`).json(t)
	got := read(made["secret"].(string))
	w.awaitRead(defaultNamespace)
	require.Equal(t, http.StatusOK, b.call("POST", "/keys/"+made["id"].(string)+":revoke", "").status)
	w.wrote.Store(true)
	a := <-got
	require.Equal(t, http.StatusUnauthorized, a.status, "%s", a.body)
	require.NotContains(t, string(a.body), "later")
	require.Equal(t, "later", (<-read(b.key)).json(t)["text"])
}

// TestANamespaceLeavesOthersToWaitForOutput: it cannot have all places of requests that wait.
func TestANamespaceLeavesOthersToWaitForOutput(t *testing.T) {
	t.Parallel()
	b, w, read := setupOutput(t)
	const places, left = 32, 7
	answered := make(chan answer, places)
	for range places {
		got := read(b.key)
		go func() { answered <- <-got }()
	}
	for range left { // they do not wait
		require.Empty(t, (<-answered).json(t)["text"])
	}
	other := b.otherNamespace()
	waits := read(b.newKey(other, access.Viewer))
	w.awaitRead(other)
	w.wrote.Store(true)
	require.Equal(t, "later", (<-waits).json(t)["text"], "it waited")
	for range places - left {
		require.Equal(t, "later", (<-answered).json(t)["text"])
	}
}
