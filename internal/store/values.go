package store

import "time"

// OrZero returns what p points to, or the zero value.
func OrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Instant is the resolution of the database's clock: the first instant after t is t + Instant.
const Instant = time.Microsecond

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
