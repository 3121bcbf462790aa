package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
)

// fullNode rejects every request with one error.
type fullNode struct {
	server.Workers
	of error
}

func (n *fullNode) Claim(context.Context, job.SessionPath, job.PullParams) ([]job.Claimed, error) {
	return nil, n.of
}

func (n *fullNode) Open(context.Context, job.SessionParams) (job.OpenedSession, error) {
	return job.OpenedSession{}, n.of
}

func (n *fullNode) Complete(context.Context, job.SessionPath, []job.Completion) ([]job.GoneReason, error) {
	return nil, n.of
}

// The response names the limit that the node has reached, because what a worker can do about it differs.
func TestAWorkerIsToldWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	node := &fullNode{}
	web := httptest.NewServer(server.New(server.Options{Keys: b.store, Audit: b.store, Workers: node}).Handler())
	t.Cleanup(web.Close)
	b.url, b.key = web.URL+"/api/v1", b.newKey(defaultNamespace, access.Admin)
	session := "/queues/mail/sessions/" + job.FormatSessionID(uuid.New())
	run := job.FormatRunID(job.Key{Job: uuid.New(), DueAt: time.Unix(1, 0)})
	for _, c := range []struct {
		of         error
		verb, body string
		says       string
	}{
		{job.ErrTooManyWorkers, ":claim", `{"handlers":["x"],"max":1}`, "more workers wait"},
		{job.ErrTooManyHandlers, ":claim", `{"handlers":["x"],"max":1}`, "more handlers"},
		{
			job.ErrTooManyReports, ":complete",
			`{"reports":[{"run":"` + run + `","attempt":1,"outcome":"succeeded"}]}`, "more reports",
		},
		{job.ErrTooManySessions, "", `{"name":"w"}`, "have just ended; try again in a moment"},
		{job.ErrAdopting, "", `{"name":"w"}`, "another request is using the session to adopt"},
	} {
		node.of = c.of
		path := session + c.verb
		if c.verb == "" {
			path = "/queues/mail/sessions"
		}
		got := b.call("POST", path, c.body)
		require.Equal(t, http.StatusTooManyRequests, got.status, "%s", got.body)
		require.Equal(t, "rate_limited", got.json(t)["code"])
		require.Contains(t, got.json(t)["detail"], c.says)
	}
}
