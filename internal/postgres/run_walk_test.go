package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestWalkIsWithoutSeams: however wide the first window is, each begins where the one before ended, and the last one
// ends at the bottom.
func TestWalkIsWithoutSeams(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	bottom, day := time.Unix(0, 0), 24*time.Hour
	for _, width := range []time.Duration{time.Second, time.Minute, day, 11 * 366 * day, allTime} {
		for _, oldest := range []time.Time{bottom, now.Add(-30 * day), {}} {
			for _, to := range []time.Time{far, now, now.Add(-29 * day), now.Add(-400 * day)} {
				w := walk{now: now, to: to, oldest: oldest, bottom: bottom, width: width}
				froms, tos := w.windows()
				expect := to
				for i := range froms {
					require.Equal(t, expect, tos[i])
					require.True(t, froms[i].Before(tos[i]))
					expect = froms[i]
				}
				require.Equal(t, bottom, expect)
				require.LessOrEqual(t, len(froms), 32)
			}
		}
	}
	froms, _ := (&walk{now: now, to: bottom, bottom: bottom, width: day}).windows()
	require.Empty(t, froms)
}

// TestWalkReadsLess: if a statement takes too long, another one begins with the smallest window.
func TestWalkReadsLess(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	var widths []time.Duration
	slow := func(args pgx.NamedArgs, until int) func() error {
		return func() error {
			froms, tos := args["froms"].([]time.Time), args["tos"].([]time.Time)
			if widths = append(widths, tos[0].Sub(froms[0])); len(widths) < until {
				return &pgconn.PgError{Code: "57014"}
			}
			return nil
		}
	}
	for until, want := range map[int]error{2: nil, 3: job.ErrSlowList} {
		widths = nil
		args := pgx.NamedArgs{}
		w := walk{now: now, to: now, bottom: now.Add(-time.Hour), width: time.Hour}
		require.ErrorIs(t, w.back(context.Background(), args, slow(args, until)), want)
		require.Equal(t, []time.Duration{time.Hour, windowLeast}, widths)
	}
}
