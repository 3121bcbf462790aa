// Package clocktest helps tests that judge how long something takes. Most tests should not: they wait for a signal, or
// compare times of the database.
package clocktest

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Allow returns how long something may take now that may take d on an idle machine. A machine with more work than
// processors is slower by that ratio, and so is the limit. On an idle machine the limit is d.
func Allow(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil { // not Linux
		return d
	}
	return allow(d, string(text), runtime.NumCPU())
}

// allow takes the larger of two figures: how many threads wanted to run in the last minute, and how many want to now.
func allow(d time.Duration, loadavg string, processors int) time.Duration {
	var minute, five, fifteen float64
	var running int
	if _, err := fmt.Sscanf(loadavg, "%f %f %f %d/", &minute, &five, &fifteen, &running); err != nil {
		return d
	}
	wanted := max(minute, float64(running))
	return time.Duration(float64(d) * max(1, wanted/float64(processors)))
}
