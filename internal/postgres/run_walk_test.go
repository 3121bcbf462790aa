package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// TestWalkIsWithoutSeams: however wide the windows are, each begins where the one before ended, and the last one ends
// at the bottom.
func TestWalkIsWithoutSeams(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	for _, width := range []time.Duration{
		time.Second, time.Minute, 24 * time.Hour, 11 * 366 * 24 * time.Hour, allTime,
	} {
		for slow := range 6 { // how many of the readings take long, and so widen the next one less
			w := walk{bottom: time.Unix(0, 0), to: far, width: width}
			expect, readings := far, 0
			for rest := &w; rest != nil; {
				var err error
				rest, err = rest.back(t.Context(), now, func(from, to time.Time, _ bool) (bool, error) {
					require.Equal(t, expect, to)
					require.True(t, from.Before(to))
					expect = from
					if readings++; readings <= slow {
						for began := clock.Elapsed(); clock.Elapsed()-began < windowAim/2; {
						}
					}
					return false, nil
				})
				require.NoError(t, err)
			}
			require.Equal(t, time.Unix(0, 0), expect)
			require.Less(t, readings, 40)
		}
	}
}

// TestWalkReadsLess: a window that takes too long is read again with a smaller width.
func TestWalkReadsLess(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	var widths []time.Duration
	_, err := walk{
		bottom: now.Add(-time.Hour),
		to:     now,
		width:  time.Hour,
	}.back(t.Context(), now, func(from, to time.Time, bounded bool) (bool, error) {
		widths = append(widths, to.Sub(from))
		if bounded {
			return false, &pgconn.PgError{Code: "57014"}
		}
		return true, nil
	})
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Hour, time.Hour / windowShort, windowLeast}, widths)
}
