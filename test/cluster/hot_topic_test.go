package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestHotTopic: many runs that are due in one second go to one topic of Kafka. Each is there once, by its key.
func TestHotTopic(t *testing.T) {
	runs := number("RUNS", 2000)
	if os.Getenv("RUNS") == "" {
		t.Parallel()
	}
	kind := brokerKinds["Kafka"]
	b := newBrokerServer(t, kind.service)
	kind.make(t, b.address())
	c := newCluster(t, setup{nodes: 2, env: []string{
		"BELFRY_SLOTS=4000", "BELFRY_CONNECTIONS=8",
	}})
	kind.set(c, b.proxy.Address())
	due := c.now().Add(time.Duration(20+runs/2500) * time.Second).Truncate(time.Second)
	c.end = due
	const chunk = 1000
	for first := 0; first < runs; first += chunk {
		order := job.BulkParams{Namespace: access.DefaultNamespace, Actor: "test"}
		for i := first; i < min(first+chunk, runs); i++ {
			// Spread over the second.
			at := due.Add(time.Duration(i%1000) * time.Millisecond)
			order.Jobs = append(order.Jobs, job.NewJob{Definition: job.Definition{
				Name: fmt.Sprintf("job-%d", i), Schedule: schedule.Spec{At: at.Format(time.RFC3339Nano)},
				Payload: json.RawMessage(fmt.Sprintf(`{"n": %d}`, i)),
				Target:  job.Target{Kind: kind.target, Config: json.RawMessage(kind.config)},
			}})
		}
		made, err := c.store.CreateJobs(t.Context(), order)
		require.NoError(t, err)
		for _, m := range made {
			require.NoError(t, m.Err)
		}
	}
	require.Less(t, c.now(), due, "the jobs were made too late")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, until(ctx, func() bool {
		var ended int
		require.NoError(t, c.pool.QueryRow(ctx, `SELECT count(*) FROM run_history`).Scan(&ended))
		return ended >= runs
	}))
	var drained, p50, p99 time.Duration
	var attempts, succeeded int
	const query = `
SELECT max(ended_at) - $1,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY ended_at - due_at),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY ended_at - due_at),
       sum(attempt), count(*) FILTER (WHERE ended = 1)
FROM run_history`
	require.NoError(t, c.pool.QueryRow(ctx, query, due).Scan(&drained, &p50, &p99, &attempts, &succeeded))
	there := kind.read(t, b.address())
	messages := 0
	for _, n := range there {
		messages += n
	}
	t.Logf("%d runs due in one second, in Kafka: %d distinct keys, %d duplicates, %d attempts; "+
		"the last ended %.1f s after the second began (%.0f runs/s), from due to ended p50 %.1f s, p99 %.1f s",
		runs, len(there), messages-len(there), attempts, drained.Seconds(), float64(runs)/drained.Seconds(),
		p50.Seconds(), p99.Seconds())
	require.Equal(t, runs, succeeded)
	require.Len(t, there, runs)
	require.Equal(t, runs, messages)
}
