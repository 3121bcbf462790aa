package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
)

// waitingNode has a poll that waits until due, and then checks whether it may hand out a run.
type waitingNode struct {
	server.Workers
	waits, due chan struct{}
}

func (n *waitingNode) Claim(_ context.Context, _ job.SessionPath, o job.PullParams) ([]job.Claimed, error) {
	n.waits <- struct{}{}
	<-n.due
	if err := o.Check(); err != nil {
		return nil, err
	}
	return []job.Claimed{{}}, nil
}

// TestALongPollOfARevokedKeyGetsNothing: its key was valid when it began to wait, and is not when a run is due.
func TestALongPollOfARevokedKeyGetsNothing(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	node := &waitingNode{waits: make(chan struct{}), due: make(chan struct{})}
	web := httptest.NewServer(server.New(server.Options{Keys: b.store, Audit: b.store, Workers: node}).Handler())
	t.Cleanup(web.Close)
	b.url, b.key = web.URL+"/api/v1", b.newKey(defaultNamespace, access.Admin)
	made := b.call("POST", "/keys", `{"name":"k","role":"worker","queues":["mail"]}`).json(t)
	poll := func() <-chan int {
		status := make(chan int, 1)
		go func() {
			status <- b.callAs(made["secret"].(string), "POST",
				"/queues/mail/sessions/"+job.FormatSessionID(uuid.New())+":claim", `{"handlers":["x"],"max":1}`).status
		}()
		<-node.waits
		return status
	}
	status := poll()
	node.due <- struct{}{}
	require.Equal(t, http.StatusOK, <-status)

	status = poll()
	require.Equal(t, http.StatusOK, b.call("POST", "/keys/"+made["id"].(string)+":revoke", "").status)
	node.due <- struct{}{}
	require.Equal(t, http.StatusUnauthorized, <-status)
}
