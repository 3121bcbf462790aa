package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestAnUnknownKindIsDeferred: a node that cannot deliver a run, because it is of an older version or runs no commands,
// neither fails it nor uses up its attempts. The partition asks for a node that can.
func TestAnUnknownKindIsDeferred(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := b.create(t, "exotic", longAgo, func(d *job.Definition) {
		d.Target.Kind, d.Retry.MaxAttempts = "exotic", 1
	})
	b.start(t)
	b.eventually(t, "deferred", `SELECT count(*) FROM run
		WHERE state = 0 AND attempt = 1 AND free_attempts = 1 AND deferred_reason LIKE '%exotic%'`, 1)
	b.eventually(t, "asked for", `SELECT count(*) FROM partition WHERE 'exotic' = ANY (needs)`, 1)
	var partition int16
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM partition WHERE needs <> '{}'`).Scan(&partition))
	require.Equal(t, j.Partition, partition)
}
