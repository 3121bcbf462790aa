package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Duration is a time.Duration that users write as "30s", "15m", "1h30m" or "7d". Negative durations are not accepted.
type Duration time.Duration

const (
	day = Duration(24 * time.Hour)
	// maxDays: longer durations are written in hours, because schedule.ParseDuration bounds days but not hours.
	maxDays = 3660
)

// String is the shortest form that reads back as the same duration.
func (d Duration) String() string {
	if d != 0 && d%day == 0 && d/day <= maxDays && d > 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText writes the form of String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration as users write it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := schedule.ParseDuration(string(text))
	if err != nil || v < 0 {
		return problem.New("duration", problem.Quote(string(text))+" is not a duration",
			"write for example 30s, 15m, 1h30m or 7d")
	}
	*d = Duration(v)
	return nil
}

// UnmarshalJSON accepts only strings: a bare number has no unit, and guessing one confuses seconds and nanoseconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		return problem.New("duration", problem.Quote(string(data))+" is not a string with a unit",
			`write for example "30s", "15m" or "7d"`)
	}
	return d.UnmarshalText([]byte(text))
}
