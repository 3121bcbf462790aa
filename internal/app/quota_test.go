package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestSchedulesDoNotFillTheWheel: runs of a queue that is paused wait. With a quota of live runs, a schedule stops to add
// to them, and goes on after the queue is resumed.
func TestSchedulesDoNotFillTheWheel(t *testing.T) {
	t.Parallel()
	b := startWith(t, func(c *Config) { c.LookAhead = 2 * time.Second })
	exec := func(sql string) {
		_, err := b.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`UPDATE namespace SET max_live_runs = 5 WHERE id = '` + namespace.String() + `'`)
	b.create(t, "stuck", func(d *job.Definition) { d.Schedule, d.Queue = schedule.Spec{Every: "1s"}, "stuck" })
	exec(`UPDATE queue SET paused = true WHERE name = 'stuck'`)
	const visit = `UPDATE cursor SET retry_at = NULL` // without a pause of a minute
	b.eventually(t, 1, `SELECT count(*) FROM cursor WHERE retry_at IS NOT NULL AND next_due_at < now()`)
	exec(visit)
	b.eventually(t, 1, `SELECT count(*) FROM cursor WHERE next_due_at < full_until`)
	exec(`UPDATE queue SET paused = false WHERE name = 'stuck'`)
	b.eventually(t, 1, `SELECT count(*) FROM namespace_runs WHERE NOT is_full`)
	exec(visit)
	b.eventually(t, 1, `
SELECT least(count(*), 1) FROM run_history h
WHERE h.due_at > (SELECT max(to_due) FROM cursor_skip WHERE reason = 'live_runs')`)
}
