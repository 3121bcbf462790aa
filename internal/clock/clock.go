// Package clock is the only place that reads the machine's clock. The database clock decides what is due. The machine's
// clock is for display, measurements and defaults on the command line, and a witness when the database clock is in doubt:
// see Trust.
package clock

import "time"

// Now reads the machine's clock.
func Now() time.Time { return time.Now() }
