package sdk_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	belfry "github.com/belfry-dev/belfry/sdk/go"
	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// A late adoption of the worker takes the runs from its session, which therefore ends before its time. The
// worker adopts them again: nothing is lost, whichever request notices it.
func TestALateAdoption(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl   time.Duration
		slots int
		ends  bool // the run ends before the next heartbeat
	}{
		"heartbeat":            {ttl: 15 * time.Second, slots: 1},
		"heartbeat and a poll": {ttl: 15 * time.Second, slots: 2},
		"report":               {ttl: time.Minute, slots: 1, ends: true},
		"report and a poll":    {ttl: time.Minute, slots: 2, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := setupNode(t, c.ttl)
			n.rescue()
			opened := make(chan string, 10)
			at := n.between(func(b []byte) []byte { return b }, func(path string, _, answer []byte) bool {
				var session struct{ ID string }
				if strings.HasSuffix(path, "/sessions") && json.Unmarshal(answer, &session) == nil {
					opened <- session.ID
				}
				return false
			})
			w := n.worker(at, worker.Slots(c.slots))
			hold := make(chan struct{})
			var begun atomic.Int32
			w.Handle("stays", func(ctx context.Context, _ *worker.Run) error {
				begun.Add(1)
				select {
				case <-hold:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			n.job("stays", "")
			n.start(w)
			stays := n.trigger("stays", "{}")
			n.await(stays, "running")
			client, err := belfry.New(n.url, n.key)
			require.NoError(t, err)
			late := belfry.Request{Method: http.MethodPost, Path: "/queues/mail/sessions", Body: map[string]any{
				"name": "w", "adopt": <-opened, "runs": []map[string]any{{"run": stays, "attempt": 1}},
			}}
			require.NoError(t, client.Call(t.Context(), late, nil))
			if !c.ends {
				select {
				case <-opened: // the worker has adopted again
				case <-time.After(patience):
					t.Fatal("the worker adopts nothing")
				}
			}
			close(hold)
			n.await(stays, "succeeded")
			require.Equal(t, 1, n.run(stays).Attempt)
			require.Equal(t, int32(1), begun.Load())
		})
	}
}
