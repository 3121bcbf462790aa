package clock

import "time"

var origin = time.Now()

// Elapsed is how long the process has run, by the monotonic clock. Use it for leases and measurements, which a step of
// the wall clock must not affect. It does not count time that the machine was suspended.
func Elapsed() time.Duration { return time.Since(origin) }
