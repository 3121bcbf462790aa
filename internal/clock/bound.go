package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bound is a lower bound of the database's clock. A sample is the database's
// instant and the moment its answer arrived; since then at least as much time
// has passed there as here, so whoever starts when the bound reaches a due time
// is never early. The machine's wall clock plays no part: only elapsed time,
// which is monotonic. Safe for concurrent use.
type Bound struct {
	sample atomic.Pointer[sample]
	mu     sync.Mutex // of trust
	trust  Trust
}

type sample struct {
	database, arrived time.Time
	jump              time.Duration
}

// Set takes a sample: the instant that the database told just now. It returns
// how far the database's clock has jumped against the time that has passed
// here; 0: it has not, see Trust. The instant is taken all the same, also one before
// the bound: the bound is what the database says, not what it said.
func (b *Bound) Set(database time.Time) (jump time.Duration) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	jump = b.trust.Judge(Reading{Database: database, Elapsed: now.Sub(origin), Wall: now.Round(0)})
	b.sample.Store(&sample{database, now, jump})
	return jump
}

// Jump is what Set returned last. While it is not 0, nothing must be planned.
func (b *Bound) Jump() time.Duration {
	if s := b.sample.Load(); s != nil {
		return s.jump
	}
	return 0
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
