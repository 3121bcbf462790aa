package clock

import "time"

var origin = time.Now()

// Elapsed is how long the process has run, by the monotonic clock: for leases
// and stopwatches, which a step of the wall clock must not touch. A machine
// that sleeps does not count its sleep.
func Elapsed() time.Duration { return time.Since(origin) }
