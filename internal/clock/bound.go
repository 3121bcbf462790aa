package clock

import (
	"sync/atomic"
	"time"
)

// Bound is a lower bound of the database's clock. A sample is the database's
// instant and the moment its answer arrived; since then at least as much time
// has passed there as here, so whoever starts when the bound reaches a due time
// is never early. The machine's wall clock plays no part: only elapsed time,
// which is monotonic. Safe for concurrent use.
type Bound struct{ sample atomic.Pointer[sample] }

type sample struct{ database, arrived time.Time }

// Set takes a sample: the instant that the database told just now. It returns
// how far the database's clock ran ahead of (or, negative, behind) the bound.
// An older instant than the bound is taken too: the bound is what the database
// says, not what it said.
func (b *Bound) Set(database time.Time) (drift time.Duration) {
	now := time.Now()
	if old := b.sample.Swap(&sample{database, now}); old != nil {
		drift = database.Sub(old.database) - now.Sub(old.arrived)
	}
	return drift
}

// Now is the bound; zero before the first sample.
func (b *Bound) Now() time.Time {
	s := b.sample.Load()
	if s == nil {
		return time.Time{}
	}
	return s.database.Add(time.Since(s.arrived))
}

// Until is how long to wait, at least, until the database's clock shows t.
func (b *Bound) Until(t time.Time) time.Duration { return t.Sub(b.Now()) }
