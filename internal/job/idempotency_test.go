package job_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	a := job.Attempt{
		Key: job.Key{
			Job:   uuid.MustParse("01920000-0000-7000-8000-0123456789ab"),
			DueAt: time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC),
		},
		About: `{"name": "n", "namespace": "ns", "queue": "q", "labels": {"a": "b"}}`, Payload: `{"x": 1}`,
	}
	require.False(t, a.MakeKey())
	require.Equal(t, job.FormatRunID(a.Key), a.IdempotencyKey(), "without an expression it is the run's id")
	a.KeyExpression = `[job.name, job.namespace, job.queue, job.labels.a][payload.x] + job.id + run_id`
	require.True(t, a.MakeKey())
	require.Equal(t, "ns"+job.FormatJobID(a.Key.Job)+job.FormatRunID(a.Key), a.IdempotencyKey())

	for expression, says := range map[string]string{
		`""`:                                 "empty text",
		`"a b"`:                              "a space or a character that is not ASCII",
		`"ä"`:                                "a space or a character that is not ASCII",
		`"` + strings.Repeat("x", 256) + `"`: "256 bytes; at most 255",
		`payload.none`:                       "have no none",
		`{"broken policy`:                    "Syntax error",
		`string(payload.x / 0)`:              "division by zero",
	} {
		a.OwnKey, a.KeyExpression = "", expression
		require.False(t, a.MakeKey(), expression)
		require.Contains(t, a.KeyProblem, says, expression)
		require.Contains(t, a.KeyProblem, "fix the job, then redrive the run", expression)
		require.Empty(t, a.OwnKey)
	}
}

// TestValidationKeepsNoExpression: a viewer may have many definitions checked, such as by a diff, and compiled expressions
// take much memory. It is not parallel, because it measures the heap of the process.
func TestValidationKeepsNoExpression(t *testing.T) {
	validate := func(n int) {
		d := valid()
		d.IdempotencyKey = fmt.Sprintf(`string([%s[]].size())+"%06d"`, strings.Repeat("[].map(a,a),", 80), n)
		require.NoError(t, d.Validate())
	}
	size := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	validate(0) // what is allocated once
	before := size()
	for n := range 20 {
		validate(n)
	}
	require.Less(t, size()-before, 20*10_000)
}
