package postgres

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// walkTime is when a page of any list is handed out as it is, though it is not full.
	walkTime = 30 * time.Millisecond
	// windowAim is how long one look should take: the next window is so much wider,
	// or half as wide if it took longer than windowSlow.
	windowAim   = 15 * time.Millisecond
	windowSlow  = 30 * time.Millisecond
	windowMore  = 32     // at most so much wider
	windowCount = 10_000 // so many there are at most, however slow the machine is, unless too much happened in one
	windowTime  = "40ms"
	windowShort = 64          // the part of a window that took longer than windowTime which is looked at instead
	windowLeast = time.Second // all that can happen in it is little enough to be read
	allTime     = 230 * 366 * 24 * time.Hour
)

// walk is how a list goes back in time: windows [from, to), from to down to
// bottom, each as wide as the time that the last one took allows. That bounds the
// work for a page, whether a second holds a thousand rows or a year holds three.
type walk struct {
	bottom, to time.Time
	width      time.Duration
}

// back reads window after window until one makes the page full, or the time is
// up: it then returns what is left.
func (w walk) back(ctx context.Context, now time.Time, read func(from, to time.Time, bounded bool) (full bool, err error)) (rest *walk, err error) {
	began := clock.Elapsed()
	for w.bottom.Before(w.to) {
		from := later(w.bottom, earlier(w.to, now).Add(-w.width))
		looked := clock.Elapsed()
		full, err := read(from, w.to, w.width > windowLeast)
		if gaveUp(ctx, err) && w.width > windowLeast {
			w.width = max(w.width/windowShort, windowLeast)
			continue
		}
		if err != nil || full {
			return nil, err
		}
		w.to = from
		w.resize(clock.Elapsed() - looked)
		if w.bottom.Before(w.to) && clock.Elapsed()-began > walkTime {
			return &w, nil
		}
	}
	return nil, nil
}

// resize sets the width of the next window by how long the last one took.
func (w *walk) resize(took time.Duration) {
	factor := min(max(float64(windowAim)/float64(max(took, time.Microsecond)), 1), windowMore)
	if took > windowSlow {
		factor = 0.5
	}
	width := min(float64(w.width)*factor, float64(allTime)) // a Duration ends at 292 years
	w.width = max(time.Duration(width), windowLeast, w.to.Sub(w.bottom)/windowCount)
}

// from begins where a page ended.
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
