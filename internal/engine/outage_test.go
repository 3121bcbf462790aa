package engine_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestAnOutageIsReportedInOneLine: how many occurrences start late, how many do not run, and which they are.
func TestAnOutageIsReportedInOneLine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	log := &bytes.Buffer{} // slog writes one line at a time
	b.engine.Log = slog.New(slog.NewJSONHandler(log, nil))
	for name, policy := range map[string]job.MissedPolicy{"runs late": job.MissedAll, "skips": job.MissedSkip} {
		b.create(t, name, schedule.Spec{Every: "10s"}, func(d *job.Definition) {
			d.Overlap, d.Missed = job.OverlapAllow, job.Missed{Policy: policy, CatchUpWindow: job.Duration(time.Hour)}
		})
	}
	_, err := b.pool.Exec(t.Context(), `
WITH unserved AS (UPDATE partition SET missed_until = now() - interval '10 s'),
     older AS (UPDATE job SET plan_from = plan_from - interval '1 h')
UPDATE cursor SET next_due_at = next_due_at - interval '1 min'`)
	require.NoError(t, err)
	stop := b.start(t)
	b.eventually(t, "skipped", `SELECT count(*) FROM cursor_skip`, 1)
	b.eventually(t, "caught up", `SELECT least(count(*), 4) FROM run_history WHERE origin = 3 AND ended = 1`, 4)
	b.eventually(t, "all of it", `SELECT count(*) FROM run WHERE origin = 3`, 0)
	stop()

	var runs, skipped int64
	var from, to time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT (SELECT count(*) FROM run_history WHERE origin = 3), (SELECT sum(count) FROM cursor_skip),
       (SELECT least(min(due_at), (SELECT min(from_due) FROM cursor_skip)) FROM run_history WHERE origin = 3),
       (SELECT greatest(max(due_at), (SELECT max(to_due) FROM cursor_skip)) FROM run_history WHERE origin = 3)`,
	).Scan(&runs, &skipped, &from, &to))
	require.Equal(t, runs, b.engine.Counts().CaughtUp)
	var lines []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "no node served some partitions") {
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 1, "one line for both schedules, in %d transactions or more", 2)
	var got struct {
		CaughtUp int64     `json:"caught_up"`
		Skipped  int64     `json:"skipped"`
		From     time.Time `json:"due_from"`
		To       time.Time `json:"due_to"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
	require.Equal(t, []int64{runs, skipped}, []int64{got.CaughtUp, got.Skipped})
	require.WithinRange(t, got.From, from, from)
	require.WithinRange(t, got.To, to, to)
}
