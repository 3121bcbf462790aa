package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCountsThatTakeTooLongAreNotZero: if there is no time for the counts, whatever the limit, Depth fails. Zeros would
// say that no node is alive, that no day of history exists, and that nothing waits.
func TestCountsThatTakeTooLongAreNotZero(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.queue(1, "q", bulkUUID())
	b.runs(1, 1, "-1 min")
	b.exec(`UPDATE run SET state = 1, session_id = $1, claimed_at = now()`, b.session)
	b.exec(`UPDATE session SET expires_at = now() - interval '1 s'`)
	b.exec(`CREATE OR REPLACE FUNCTION belfry_clock_trusted(at timestamptz DEFAULT now()) RETURNS boolean LANGUAGE plpgsql STABLE
		AS 'BEGIN PERFORM pg_sleep(5); RETURN true; END'`)
	d, err := b.store.Depth(t.Context(), allPartitions(), nil)
	require.Error(t, err, "%+v", d)
}
