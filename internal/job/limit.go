package job

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// The bounds of limits.
const (
	MaxRunning        = 10_000 // of a queue or a concurrency key: each claim counts them
	MaxRate           = 1_000_000
	MaxConcurrencyKey = 200 // characters
)

// Concurrency bounds the live runs that share a key, across all jobs of the namespace.
type Concurrency struct {
	Key string `json:"key,omitempty"`
	// Max is the maximum number of live runs with the key, including this job's, when a run of this job starts.
	// Default 1.
	Max int32 `json:"max,omitempty"`
}

// ID is the key in the database, 0 if there is none. A 64-bit hash needs no table of keys, which would need pruning.
func (c Concurrency) ID(namespace uuid.UUID) int64 {
	if c.Key == "" {
		return 0
	}
	sum := sha256.Sum256(append(namespace[:], c.Key...))
	return int64(binary.BigEndian.Uint64(sum[:8]) | 1) // never 0
}

// QueueLimits bound what a queue starts on all nodes together. Zero values mean no limit.
type QueueLimits struct {
	MaxRunning int32 // live runs: running, or waiting for their target's report
	Rate       Rate
	Burst      int32 // starts at once after a quiet period; 0 means a tenth of one second's rate, at least 1
}

// Limited reports whether there is a limit.
func (l QueueLimits) Limited() bool { return l.MaxRunning > 0 || l.Rate.Count > 0 }

// Validate returns all problems at once: see [problem.All].
func (l QueueLimits) Validate() error {
	var c problem.Checker
	if l.MaxRunning < 0 || l.MaxRunning > MaxRunning {
		c.Add("max_running", fmt.Sprintf("%d is out of range", l.MaxRunning),
			fmt.Sprintf("use 1 to %d, or leave it out for no limit", MaxRunning))
	}
	if l.Rate.Count < 0 || l.Rate.Count > MaxRate {
		c.Add("rate", fmt.Sprintf("%d is out of range", l.Rate.Count),
			fmt.Sprintf("use 1 to %d, or leave it out for no limit", MaxRate))
	}
	switch {
	case l.Burst < 0 || l.Burst > MaxRate:
		c.Add("burst", fmt.Sprintf("%d is out of range", l.Burst), fmt.Sprintf("use 1 to %d, or leave it out", MaxRate))
	case l.Burst > 0 && l.Rate.Count == 0:
		c.Add("burst", "it needs a rate", "set rate as well, for example 100/s")
	}
	return c.Err()
}

// ValidateQueue returns the problem with the name of a queue.
func ValidateQueue(name string) error {
	if queueForm.MatchString(name) {
		return nil
	}
	return problem.New("name", problem.Quote(name)+" is not a queue name", QueueNameFix)
}

// burst is Burst or its default.
func (l QueueLimits) burst() float64 {
	if l.Burst > 0 {
		return float64(l.Burst)
	}
	return max(1, math.Floor(l.Rate.perSecond()/10))
}

// Rate is a number of starts per second, minute or hour.
type Rate struct {
	Count   int32
	Seconds int32 // 1, 60 or 3600
}

var rateUnits = map[string]int32{"s": 1, "m": 60, "h": 3600}

// ParseRate reads "100/s", "30/m" or "1000/h". An empty string means no rate.
func ParseRate(text string) (Rate, error) {
	if text == "" {
		return Rate{}, nil
	}
	count, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseInt(count, 10, 32)
	if err != nil || rateUnits[unit] == 0 || n < 1 || n > MaxRate {
		return Rate{}, problem.New("rate", problem.Quote(text)+" is not a rate",
			fmt.Sprintf("write 1 to %d starts per second, minute or hour, for example 100/s, 30/m or 1000/h", MaxRate))
	}
	return Rate{int32(n), rateUnits[unit]}, nil
}

func (r Rate) String() string {
	for unit, seconds := range rateUnits {
		if r.Count > 0 && seconds == r.Seconds {
			return fmt.Sprintf("%d/%s", r.Count, unit)
		}
	}
	return ""
}

func (r Rate) perSecond() float64 {
	if r.Seconds == 0 {
		return 0
	}
	return float64(r.Count) / float64(r.Seconds)
}

// Bucket is a token bucket: the starts that a rate allows at an instant.
type Bucket struct {
	Tokens float64
	At     time.Time // zero if it was never used: then it is full
}

// Fill is the bucket at a later instant. A clock that goes back adds nothing.
func (b Bucket) Fill(l QueueLimits, now time.Time) Bucket {
	if b.At.IsZero() {
		return Bucket{l.burst(), now}
	}
	if elapsed := now.Sub(b.At); elapsed > 0 {
		b.Tokens, b.At = b.Tokens+elapsed.Seconds()*l.Rate.perSecond(), now
	}
	b.Tokens = min(b.Tokens, l.burst())
	return b
}

// rateBatch is how much of a rate a claim waits for: one statement for each start would cost more than the starts.
const rateBatch = 50 * time.Millisecond

// Next is how long to wait before asking again.
func (b Bucket) Next(l QueueLimits) time.Duration {
	want := min(max(1, l.Rate.perSecond()*rateBatch.Seconds()), l.burst())
	return max(time.Millisecond, time.Duration((want-b.Tokens)/l.Rate.perSecond()*float64(time.Second)))
}
