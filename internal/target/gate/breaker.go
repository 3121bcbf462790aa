package gate

import "time"

// Settings of the breaker.
const (
	window        = 20 // number of recent results that count
	minResults    = 10 // the breaker stays closed until it has seen this many
	tolerated     = 4  // if more than this many of window are good, the breaker stays closed
	firstCooldown = 5 * time.Second
	maxCooldown   = time.Minute
)

// Result of a delivery, as the breaker sees it.
type Result int

// The results.
const (
	Neutral Result = iota // says nothing about the host: the node stopped, or the run was cancelled
	Good                  // the host works, whatever it responded
	Bad                   // the host is down, overloaded or does not respond
)

// breaker of one destination. Its times are those of clock.Elapsed.
type breaker struct {
	bad       [window]bool // ring buffer of the most recent results
	seen      int
	cooldown  time.Duration // 0: the breaker is closed
	openUntil time.Duration // end of the cooldown
	probing   bool          // the cooldown is over and one delivery probes the host
}

func (b *breaker) isOpen() bool { return b.cooldown != 0 }

// allow reports whether a delivery may start, and if not, when to ask again.
func (b *breaker) allow(now time.Duration) (ok bool, again time.Duration) {
	switch {
	case !b.isOpen():
		return true, 0
	case now < b.openUntil:
		return false, b.openUntil
	case b.probing:
		return false, now + time.Second
	}
	b.probing = true
	return true, 0
}

// record adds a result. probe says that it is the result of the delivery that probed the host.
func (b *breaker) record(now time.Duration, r Result, probe bool) {
	switch {
	case probe:
		b.probing = false
		switch r {
		case Good:
			*b = breaker{}
		case Bad:
			b.cooldown = min(2*b.cooldown, maxCooldown)
			b.openUntil = now + b.cooldown
		}
		return
	case b.isOpen() || r == Neutral: // a delivery that started before the breaker opened does not count
		return
	}
	b.bad[b.seen%window] = r == Bad
	b.seen++
	if n := min(b.seen, window); n >= minResults && b.failures() >= n-n*tolerated/window {
		b.cooldown, b.openUntil = firstCooldown, now+firstCooldown
	}
}

func (b *breaker) failures() (n int) {
	for _, bad := range b.bad[:min(b.seen, window)] {
		if bad {
			n++
		}
	}
	return n
}
