// Package clocktest helps tests that judge how long something takes. Most tests should not: they wait for a signal, or
// compare times of the database.
package clocktest

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Allow returns how long something may take now that may take d on an idle machine with the hardware to itself: twice
// as long, or longer by the ratio of work to processors.
func Allow(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil { // not Linux
		return 2 * d
	}
	return allow(d, string(text), runtime.NumCPU())
}

// maxFactor bounds how much longer things may take: beyond it, a test says nothing.
const maxFactor = 6

// allow takes the larger of two figures: how many threads wanted to run in the last minute, and how many want to now.
// Twice as long is always allowed: neighbours on the same hardware may take half of a processor, and do not show here.
func allow(d time.Duration, loadavg string, processors int) time.Duration {
	var minute, five, fifteen float64
	var running int
	if _, err := fmt.Sscanf(loadavg, "%f %f %f %d/", &minute, &five, &fifteen, &running); err != nil {
		return 2 * d
	}
	wanted := max(minute, float64(running))
	return time.Duration(float64(d) * min(max(2, wanted/float64(processors)), maxFactor))
}
