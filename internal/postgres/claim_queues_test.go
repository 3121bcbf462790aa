package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestAClaimReadsTheQueuesOfItsRuns: a quota of runs per minute limits all queues of its namespace, so a cluster may have
// many limited queues, and a claim must not read all of them. It starts no run of a limited queue.
func TestAClaimReadsTheQueuesOfItsRuns(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(100)
	b.pending(1)
	b.exec(`INSERT INTO queue (namespace_id, name, max_running) SELECT gen_random_uuid(), 'q-' || g, 1
		FROM generate_series(1, 30000) g`)
	b.exec(`UPDATE queue SET max_running = NULL WHERE id = 1`) // the queue of all runs
	b.exec(`ANALYZE queue`)
	keys := b.keys(2)
	b.exec(`UPDATE run SET queue_id = (SELECT max(id) FROM queue) WHERE job_id = $1`, keys[1].Job)
	sent := r.during(func() {
		claimed, err := b.store.Claim(t.Context(), b.session, keys, farLead)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		require.Equal(t, []job.Key{keys[0]}, []job.Key{claimed[0].Key})
	})
	settings := slices.IndexFunc(sent, func(s statement) bool { return strings.Contains(s.sql, "set_config") })
	claim := slices.IndexFunc(sent, func(s statement) bool { return strings.Contains(s.sql, "claimed AS (") })
	require.NotEqual(t, -1, settings)
	require.NotEqual(t, -1, claim)
	b.exec(`UPDATE run SET state = 0, session_id = NULL, attempt = 0 WHERE state <> 0`)
	require.Less(t, b.blocks(sent[settings], sent[claim]), 60)
}
