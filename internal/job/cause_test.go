package job_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestCauseText(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"":                         "",
		"502 Bad Gateway":          "# Bad Gateway",
		"took 30s, 4 of 12 failed": "took # of # failed",
		"dial tcp 10.0.0.17:443: connection refused":   "dial tcp #: connection refused",
		"dial tcp [2001:db8::1]:443: i/o timeout":      "dial tcp [#]:#: i/o timeout",
		"run_06f8m2tq5dtk1e7n9q0c is gone":             "# is gone",
		"order 9f1b2c3d-0000-4abc-8def-001122334455":   "order #",
		"checksum deadbeef differs":                    "checksum # differs",
		"balance -5 is below +3":                       "balance # is below #",
		"until Mon, 02 Jan 2006 15:04:05 GMT":          "until # GMT",
		"until 2026-03-30T12:31:12.5+02:00":            "until #",
		"Monitor 5 says: you may try":                  "Monitor # says: you may try",
		`open "/data/a b.csv": no such file`:           "open #: no such file",
		"can't read 'x y' of `t`, won't go on":         "can't read # of #, won't go on",
		"line one\n\tline two\x00":                     "line one line two",
		`{"error":"no such user","user":"bob"}`:        `{"error":"no such user","user":#}`,
		`{"code": "quota_exceeded", "id": "x", "n":3}`: `{"code": "quota_exceeded", "id": #, "n":#}`,
		`{"title":"user \"bob\" 7"}`:                   `{"title":"user \"bob\" #"}`,
	} {
		require.Equal(t, want, job.CauseText(message), message)
	}
	require.Equal(t, "attempts", job.Cause(job.ReasonAttempts, 0, ""))
	require.Equal(t, "attempts-502", job.Cause(job.ReasonAttempts, 502, " "))
	// Causes are stored: this one must stay as it is.
	require.Equal(t, "rejected-404-be8a8711615d", job.Cause(job.ReasonRejected, 404, "404 Not Found"))
}

// values are what may stand in a message without another cause.
func values(r *rand.Rand) []func() string {
	return []func() string{
		func() string { return fmt.Sprint(r.Int64()) },
		func() string { return fmt.Sprintf("%.3f", r.Float64()*1e6) },
		func() string { return fmt.Sprintf("0x%x", r.Uint64()) },
		func() string { return fmt.Sprintf("%x7", r.Uint64()) },
		uuid.NewString,
		func() string { return time.Unix(r.Int64N(4e9), 0).UTC().Format(time.RFC3339Nano) },
		func() string { return time.Unix(r.Int64N(4e9), 0).UTC().Format("Mon, 02 Jan 2006 15:04:05.000") },
		func() string { return time.Duration(r.Int64N(1e15)).String() },
		func() string {
			return fmt.Sprintf("10.%d.%d.%d:%d", r.IntN(255), r.IntN(255), r.IntN(255), r.IntN(65535))
		},
		func() string { return `"` + strings.Repeat("a word ", r.IntN(5)) + `"` },
		func() string { return `'` + strings.Repeat("x", r.IntN(9)) + `'` },
		func() string { return job.FormatJobID(uuid.Must(uuid.NewV7())) },
	}
}

// TestCauseIsOfTheWords: whatever numbers, ids, times and quoted values a message has, its cause is that of its words.
func TestCauseIsOfTheWords(t *testing.T) {
	t.Parallel()
	words := strings.Fields("connection refused by host while reading the reply of upstream, timeout; Bad Gateway table")
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		value := values(r)
		var one, two, none []string
		for range 1 + r.IntN(12) {
			word := words[r.IntN(len(words))]
			one, two, none = append(one, word), append(two, word), append(none, word)
			if r.IntN(2) == 0 {
				a, b := value[r.IntN(len(value))](), value[r.IntN(len(value))]()
				one, two, none = append(one, a), append(two, b), append(none, "#")
			}
		}
		a, b := strings.Join(one, " "), strings.Join(two, "\n ")
		require.Equal(t, job.CauseText(strings.Join(none, " ")), job.CauseText(a), "seed %d: %s", seed, a)
		require.Equal(t, job.Cause(job.ReasonAttempts, 502, a), job.Cause(job.ReasonAttempts, 502, b), "%s\n%s", a, b)
		require.NotEqual(t, job.Cause(job.ReasonAttempts, 502, a), job.Cause(job.ReasonAttempts, 503, a))
		require.NotEqual(t, job.Cause(job.ReasonAttempts, 502, a), job.Cause(job.ReasonRejected, 502, a))
		require.NotEqual(t, job.Cause(job.ReasonAttempts, 502, a), job.Cause(job.ReasonAttempts, 502, "other "+a))
	}
}

var (
	causeForm  = regexp.MustCompile(`^[a-z_]+(-[0-9]{1,5})?(-[0-9a-f]{12})?$`)
	causeDigit = regexp.MustCompile(`\pN`)
)

func FuzzCause(f *testing.F) {
	f.Add("502 Bad Gateway: {\"error\":\"x\"}", uint16(502))
	f.Add("'\"`\\\"", uint16(0))
	f.Fuzz(func(t *testing.T, message string, status uint16) {
		text := job.CauseText(message)
		require.LessOrEqual(t, len(text), 200)
		require.True(t, utf8.ValidString(text))
		require.NotRegexp(t, causeDigit, text)
		cause := job.Cause(job.ReasonUnknownOutcome, int(status), message)
		require.Regexp(t, causeForm, cause)
		require.LessOrEqual(t, len(cause), 64)
		require.Equal(t, cause, job.Cause(job.ReasonUnknownOutcome, int(status), message), "stable")
	})
}
