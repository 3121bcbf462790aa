package keep_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/path/keep"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestRoundsKeepWhatIsToBeKept: statistics stay for two weeks, and the rest for the retention of history, which the
// operator sets.
func TestRoundsKeepWhatIsToBeKept(t *testing.T) {
	t.Parallel()
	conns := pgtest.New(t)
	store := pgtest.NewStore(conns)
	for _, sql := range []string{
		`INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at, namespace_id)
		SELECT 1, g, now(), now(), 1, 'missed', now() - (g + 0.5) * interval '1 day', gen_random_uuid() FROM generate_series(0, 39) g`,
		`INSERT INTO stat_minute
		SELECT gen_random_uuid(), 1, date_trunc('minute', now()) - (g + 0.5) * interval '1 day', gen_random_uuid(),
			0, 0, 0, 0, 0, 0, 0, 0, '{}', now(), 0, 0 FROM generate_series(0, 39) g`,
	} {
		_, err := conns.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	var log bytes.Buffer
	k := keep.NewKeeper(keep.Options{
		Store: store.Keep(), Session: func() uuid.UUID { return uuid.Nil }, ZoneRules: "2026a", Retention: 30 * 24 * time.Hour,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, l := range k.Loops() {
		_, err := l.Once(t.Context())
		require.NoError(t, err)
	}
	require.NotContains(t, log.String(), "prune failed")
	var skips, minutes int
	var ahead bool
	require.NoError(t, conns.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM cursor_skip), (SELECT count(*) FROM stat_minute),
		to_regclass('run_history_' || to_char(now() AT TIME ZONE 'UTC' + interval '14 days', 'YYYYMMDD')) IS NOT NULL`).
		Scan(&skips, &minutes, &ahead))
	require.Equal(t, 30, skips)
	require.Equal(t, 14, minutes)
	require.True(t, ahead, "history exists for days on which no node prunes")
}
