package gate

import "time"

// The breaker's measures.
const (
	window    = 20 // deliveries that are looked at
	least     = 10 // so many there must be
	tolerated = 4  // of window: so many good ones keep it closed
	firstRest = 5 * time.Second
	maxRest   = time.Minute
)

// Result of a delivery, as the breaker sees it.
type Result int

// The results.
const (
	Neutral Result = iota // says nothing about the host: the node stopped, or the run was cancelled
	Good                  // the host works, whatever it answered
	Bad                   // the host is down, overloaded or does not answer
)

// breaker is of one place. Its times are of clock.Elapsed.
type breaker struct {
	bad    [window]bool // a ring of the last results
	seen   int
	rest   time.Duration // 0: it is closed
	until  time.Duration // the end of the rest
	trying bool          // after the rest, one delivery is under way
}

// allow says whether a delivery may go; if not, when to ask again.
func (b *breaker) allow(now time.Duration) (ok bool, again time.Duration) {
	switch {
	case b.rest == 0:
		return true, 0
	case now < b.until:
		return false, b.until
	case b.trying:
		return false, now + time.Second
	}
	b.trying = true
	return true, 0
}

// record takes in a result. tried: it was the delivery after the rest.
func (b *breaker) record(now time.Duration, r Result, tried bool) {
	switch {
	case tried:
		b.trying = false
		switch r {
		case Good:
			*b = breaker{}
		case Bad:
			b.rest = min(2*b.rest, maxRest)
			b.until = now + b.rest
		}
		return
	case b.rest != 0 || r == Neutral: // from before it opened
		return
	}
	b.bad[b.seen%window] = r == Bad
	b.seen++
	if n := min(b.seen, window); n >= least && b.failures() >= n-n*tolerated/window {
		b.rest, b.until = firstRest, now+firstRest
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
