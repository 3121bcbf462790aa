package engine_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// lateTarget notes how late attempts start.
type lateTarget struct {
	b    *bundle
	mu   sync.Mutex
	late []time.Duration
}

func (l *lateTarget) Deliver(_ context.Context, a job.Attempt) job.Outcome {
	late := -l.b.bound.Until(a.Key.DueAt)
	l.mu.Lock()
	l.late = append(l.late, late)
	l.mu.Unlock()
	return job.Outcome{Kind: job.Succeeded}
}

// TestHotSecond measures many jobs due at one instant. It is asked for:
// BELFRY_HOT_JOBS=50000 go test -run HotSecond -v
func TestHotSecond(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("BELFRY_HOT_JOBS"))
	if n == 0 {
		t.Skip("set BELFRY_HOT_JOBS=50000 to measure")
	}
	b := setup(t)
	target := &lateTarget{b: b}
	b.engine.Targets["late"] = target
	due := b.bound.Now().Add(15 * time.Second).Truncate(time.Second)
	for _, sql := range []string{
		`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT p, p, '00000000-0000-7000-8000-000000000001', 'x', '{"at":"` + due.Format(time.RFC3339) + `"}', '{"policy":"all","catch_up_window":"30m","max":100,"pace":"1s"}', '` + due.Format(time.RFC3339) + `' FROM generate_series(0, 255) p`,
		`INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms, timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, payload, schedule, policy)
		SELECT get_byte(sha256(uuid_send(id)), 0), id, '00000000-0000-7000-8000-000000000001', get_byte(sha256(uuid_send(id)), 0), 1, 1, 1, 0, 1, 0, 30000, now(), now(), now(),
		       'job-' || g, 'late', '{}', '"' || repeat('x', 300) || '"', '{}', '{}'
		FROM (SELECT g, (lpad(to_hex(1760000000000 + g), 12, '0') || '7' || substr(md5(g::text), 1, 3) || '8' || substr(md5(g::text), 4, 15))::uuid AS id FROM generate_series(1, ` + strconv.Itoa(n) + `) g) x`,
		`VACUUM ANALYZE job`, `VACUUM ANALYZE cursor`,
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	stop := b.start(t)
	if !assert.Eventually(t, func() bool { return int(b.engine.Counts().Completed) == n }, time.Minute, 50*time.Millisecond) {
		t.Fatalf("%+v", b.engine.Counts())
	}
	drained := -b.bound.Until(due)
	stop()
	slices.Sort(target.late)
	at := func(q float64) time.Duration { return target.late[int(q*float64(n-1))] }
	t.Logf("jobs=%d first=%s p50=%s p95=%s p99=%s max=%s drained=%s (%.0f runs/s)", n, at(0), at(.5), at(.95), at(.99), at(1), drained, float64(n)/drained.Seconds())
	require.GreaterOrEqual(t, at(0), time.Duration(0), "never early")
	require.Len(t, target.late, n)
}

// slotsOf: few by default, so that tests meet the limit.
func slotsOf() int {
	if os.Getenv("BELFRY_HOT_JOBS") != "" {
		return 2000
	}
	return 50
}
