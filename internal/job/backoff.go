package job

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// LostLimit is the minimum number of attempts before lost attempts end a run. One crash must not end a run whose
// max_attempts is 1, but a run that kills its worker each time must end.
const LostLimit = 5

// MaxRetryAfter bounds the delay that a target can ask for.
const MaxRetryAfter = 24 * time.Hour

// noJitter is the value of Retry.Jitter for no jitter, because 0 means the default.
const noJitter = -1

// Delay is how long to wait after a failed attempt, from 0 to Cap. The random part is derived from the run and the
// attempt, so every node computes the same delay.
func (r Retry) Delay(key Key, attempt int16) time.Duration {
	n := max(int64(attempt), 1)
	base, limit := max(int64(r.Base), 0), max(int64(r.Cap), 0)
	delay := limit // unless the backoff gives less
	switch r.Backoff {
	case BackoffNone:
		delay = 0
	case BackoffFixed:
		delay = min(base, limit)
	case BackoffLinear:
		if base <= limit/n {
			delay = base * n
		}
	default: // BackoffExponential
		if double := min(n-1, 62); base <= limit>>double {
			delay = base << double
		}
	}
	if !(r.Jitter > 0) { // also true for NaN
		return time.Duration(delay)
	}
	j := min(r.Jitter, 1)
	jittered := float64(delay) * (1 - j + j*chance(key, attempt))
	return min(time.Duration(delay), time.Duration(jittered).Round(time.Microsecond))
}

// chance is a number in [0, 1) derived from the run and the attempt.
func chance(key Key, attempt int16) float64 {
	b := key.Bytes()
	sum := sha256.Sum256(binary.BigEndian.AppendUint16(b[:], uint16(attempt)))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (math.MaxUint64>>11 + 1)
}
