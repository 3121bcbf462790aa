package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestCursorsFollowZoneRules: a node whose time zone rules differ from those by which the due times were computed
// computes them again, once.
func TestCursorsFollowZoneRules(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	ctx := t.Context()
	store := pgtest.NewStore(pgtest.AsServer(t, b.pool))
	far := b.now().AddDate(0, 6, 0) // not within the look-ahead
	yearly := fmt.Sprintf("0 9 10 %d *", far.Month())
	want := map[uuid.UUID]time.Time{}
	due := func(id uuid.UUID) (at time.Time) {
		require.NoError(t, b.pool.QueryRow(ctx, `
SELECT c.next_due_at FROM job j JOIN cursor c ON c.partition = j.partition AND c.id = j.cursor_id WHERE j.id = $1`,
			id).Scan(&at))
		return at
	}
	for zone, off := range map[string]string{
		"America/New_York": "1 h", "Europe/Berlin": "-1 h", "Asia/Tokyo": "0", "Asia/Kolkata": "-30 min", "UTC": "0",
	} {
		j := b.create(definition("in "+zone, schedule.Spec{Cron: yearly, Timezone: zone}))
		want[j.ID] = due(j.ID)
		b.exec(`UPDATE cursor SET next_due_at = next_due_at + $2::interval
			WHERE id = (SELECT cursor_id FROM job WHERE id = $1)`, j.ID, off)
	}
	session := uuid.New()
	follow := func() int64 {
		t.Helper()
		n, err := store.FollowZones(ctx, job.FollowZonesParams{Session: session, Rules: "newer", LookAhead: time.Minute})
		require.NoError(t, err)
		return n
	}
	require.Zero(t, follow(), "partitions of others are left alone")
	b.exec(`UPDATE partition SET owner = $1, zone_rules = 'older'`, session)
	b.exec(`UPDATE cluster SET trusted_at = now() - interval '1 year'`)
	require.Zero(t, follow(), "the clock is in doubt")
	b.exec(`UPDATE cluster SET trusted_at = now()`)
	require.EqualValues(t, 3, follow())
	for id, at := range want {
		require.Equal(t, at.UTC(), due(id).UTC())
	}
	b.exec(`UPDATE cursor SET next_due_at = next_due_at + interval '1 h'`)
	require.Zero(t, follow(), "once for each change of the rules")
}
