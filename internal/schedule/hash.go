package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// hashOf spreads strings evenly. It must never change: the due times of stored jobs depend on it.
func hashOf(key string, n uint64) uint64 {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 64), n)
	sum := sha256.Sum256(append(b, key...))
	return binary.BigEndian.Uint64(sum[:8]) >> 8 // 56 bits, which SQL can hold in a bigint
}

const maxJitter = 24 * time.Hour

func parseJitter(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := ParseDuration(text)
	if err != nil || d < 0 || d > maxJitter {
		return 0, &Error{
			Field: "jitter", Problem: quote(text) + " is not a duration from 0 to 24h",
			Fix: "write for example 30s or 5m",
		}
	}
	return d, nil
}

// spreadOver derives a time in [0, window) from key and due, in whole milliseconds.
func spreadOver(window time.Duration, key string, due time.Time) time.Duration {
	ms := uint64(window / time.Millisecond)
	if ms == 0 {
		return 0
	}
	return time.Duration(hashOf(key, uint64(due.UnixMicro()))%ms) * time.Millisecond
}
