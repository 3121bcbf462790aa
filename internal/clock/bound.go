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

// Sample is what the database says about time.
type Sample struct {
	Now  time.Time // its clock
	Mark time.Time // the last time that the cluster trusted; zero: none
}

// InDoubt returns what the database itself knows: whether its clock is too far from the mark.
func (s Sample) InDoubt() bool { return !s.Mark.IsZero() && !near(s.Now, s.Mark, MaxJump) }

type sample struct {
	database, arrived time.Time
	doubt             string
}

// Set takes a sample that has just arrived. It returns whether the database clock is to be trusted: see Trust. A clock
// that is in doubt does not move the bound ahead.
func (b *Bound) Set(s Sample) Verdict {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.trust.Judge(Reading{Sample: s, Elapsed: now.Sub(origin), Wall: now.Round(0)})
	if v.Doubt != "" {
		s.Now = earlier(s.Now, b.Now())
	}
	b.sample.Store(&sample{s.Now, now, v.Doubt})
	return v
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Doubt is why the database clock was not trusted when it was read last; empty: it was. While it is in doubt, a node
// plans, claims, rescues, expires and prunes nothing.
func (b *Bound) Doubt() string {
	if s := b.sample.Load(); s != nil {
		return s.doubt
	}
	return "the clock of the database has not been read yet"
}

// Now returns the bound, zero before the first sample.
func (b *Bound) Now() time.Time {
	s := b.sample.Load()
	if s == nil || s.database.IsZero() {
		return time.Time{}
	}
	return s.database.Add(time.Since(s.arrived))
}

// Until returns the minimum time to wait until the database clock shows t.
func (b *Bound) Until(t time.Time) time.Duration { return t.Sub(b.Now()) }
