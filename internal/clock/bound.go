package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bound is a lower bound of the database clock. A sample is the database's instant and the moment when its reply
// arrived. Since then at least as much time has passed there as here, so a run that starts when the bound reaches its
// run time is never early. Only elapsed time, which is monotonic, is used, not the machine's wall clock. Bound is safe
// for concurrent use.
type Bound struct {
	sample atomic.Pointer[sample]
	mu     sync.Mutex // guards trust
	trust  Trust
}

type sample struct {
	database, arrived time.Time
	jump              time.Duration
}

// Set takes a sample: the instant that the database has just returned. It returns how far the database clock has jumped
// against the time that has passed here, 0 if it has not: see Trust. Set always takes the sample, even if it is before
// the bound, because only the latest answer of the database counts.
func (b *Bound) Set(database time.Time) (jump time.Duration) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	jump = b.trust.Judge(Reading{Database: database, Elapsed: now.Sub(origin), Wall: now.Round(0)})
	b.sample.Store(&sample{database, now, jump})
	return jump
}

// Jump is what Set returned last. While it is not 0, nothing may be planned.
func (b *Bound) Jump() time.Duration {
	if s := b.sample.Load(); s != nil {
		return s.jump
	}
	return 0
}

// Now returns the bound, zero before the first sample.
func (b *Bound) Now() time.Time {
	s := b.sample.Load()
	if s == nil {
		return time.Time{}
	}
	return s.database.Add(time.Since(s.arrived))
}

// Until returns the minimum time to wait until the database clock shows t.
func (b *Bound) Until(t time.Time) time.Duration { return t.Sub(b.Now()) }
