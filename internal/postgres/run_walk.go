package postgres

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// walkTime is how long a list collects rows. Then it returns the page, even if it is not full.
	walkTime = 30 * time.Millisecond
	// windowAim is how long reading one window should take. The next window is wider by that measure, at most
	// windowMore times, or half as wide if reading took longer than windowSlow.
	windowAim   = 15 * time.Millisecond
	windowSlow  = 30 * time.Millisecond
	windowMore  = 32
	windowCount = 10_000      // the maximum number of windows, however slow the machine is
	windowTime  = "40ms"      // the timeout of a window
	windowShort = 64          // a window that timed out is read again with this fraction of its width
	windowLeast = time.Second // the least width: what happens in it can always be read, so it has no timeout
	allTime     = 230 * 366 * 24 * time.Hour
)

// walk is how a list goes back in time: in windows [from, to) down to bottom. The time that one window took sets the
// width of the next. That bounds the work for a page, whether a second has a thousand rows or a year has three.
type walk struct {
	bottom, to time.Time
	width      time.Duration
}

// back reads windows until the page is full or the time is up. In the second case it returns what is left to read.
func (w walk) back(
	ctx context.Context, now time.Time, read func(from, to time.Time, bounded bool) (full bool, err error),
) (rest *walk, err error) {
	began := clock.Elapsed()
	for w.bottom.Before(w.to) {
		from := later(w.bottom, earlier(w.to, now).Add(-w.width))
		started := clock.Elapsed()
		full, err := read(from, w.to, w.width > windowLeast)
		if gaveUp(ctx, err) && w.width > windowLeast {
			w.width = max(w.width/windowShort, windowLeast)
			continue
		}
		if err != nil || full {
			return nil, err
		}
		w.to = from
		w.resize(clock.Elapsed() - started)
		if w.bottom.Before(w.to) && clock.Elapsed()-began > walkTime {
			return &w, nil
		}
	}
	return nil, nil
}

// resize sets the width of the next window from the time that the last one took.
func (w *walk) resize(took time.Duration) {
	factor := min(max(float64(windowAim)/float64(max(took, time.Microsecond)), 1), windowMore)
	if took > windowSlow {
		factor = 0.5
	}
	width := min(float64(w.width)*factor, float64(allTime)) // a Duration ends at 292 years
	w.width = max(time.Duration(width), windowLeast, w.to.Sub(w.bottom)/windowCount)
}

// from continues where a page ended.
func (w *walk) from(mark job.RunMark) {
	w.to = earlier(w.to, mark.At)
	if mark.Width > 0 {
		w.width = min(max(mark.Width, windowLeast), allTime)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
