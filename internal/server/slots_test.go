package server_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestDesiredSlots: from what is due and how long attempts took, whatever other queues have.
func TestDesiredSlots(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	id := n.workerJob("invoice", "work", "invoice")
	n.workerJob("other", "busy", "other")
	for range 6 {
		n.trigger(id)
	}
	got := n.counts("work", map[string]any{"due": 6.})
	require.EqualValues(t, 1, got["desired_slots"])
	require.EqualValues(t, 1, got["attempt_seconds"], "as long as none has ended")

	var queue int32
	require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT id FROM queue WHERE name = 'work'`).Scan(&queue))
	minute := timeOf(t, n.get("/cluster")["database_time"]).Truncate(time.Minute)
	require.NoError(t, n.store.WriteStats(t.Context(), uuid.New(), []job.StatRow{{
		StatKey: job.StatKey{Namespace: defaultNamespace, Queue: queue, Minute: minute},
		Stat:    job.Stat{Attempts: 10, Took: 100 * time.Second},
	}}, false))
	n.counts("work", map[string]any{"attempt_seconds": 10., "desired_slots": 2.})
	require.EqualValues(t, 6, n.get("/queues/work?include=counts&drain=10s")["counts"].(map[string]any)["desired_slots"])
	require.NotContains(t, n.get("/queues?include=counts")["items"].([]any)[0].(map[string]any)["counts"], "desired_slots")
	a := n.call("POST", "/jobs", `{"name":"web","queue":"work","schedule":{"cron":"0 0 1 1 *"},"overlap":"allow",
		"target":{"kind":"http","config":{"url":"`+n.sink+`"}}}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	for range 3 {
		n.trigger(a.json(t)["id"].(string))
	}
	n.counts("work", map[string]any{"due": 9., "desired_slots": 2.}) // workers do not run those
	for _, drain := range []string{"0s", "2h", "soon"} {
		require.Equal(t, 422, n.call("GET", "/queues/work?include=counts&drain="+drain, "").status, drain)
	}
}

// TestOtherQueuesDoNotHideTheLoad: however many live runs they have.
func TestOtherQueuesDoNotHideTheLoad(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.trigger(n.workerJob("other", "busy", "other"))
	n.exec(`INSERT INTO run SELECT (jsonb_populate_record(r, jsonb_build_object('due_at', r.due_at - g * interval '1 s'))).*
		FROM run r, generate_series(1, 100000) g`)
	id := n.workerJob("invoice", "work", "invoice")
	for range 90 {
		n.trigger(id)
	}
	items, _ := n.all("/queues?include=counts")
	require.Equal(t, map[string]any{"due": 90., "more": false}, pick(items[1]["counts"].(map[string]any), "due", "more"))
	got := n.counts("work", map[string]any{"due": 90., "desired_slots": 3., "more": false})
	require.NotEmpty(t, got["oldest_due_at"])
}
