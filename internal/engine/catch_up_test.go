package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// When a doubt about the clock ends, partitions have a gap of service although their owner stays. Runs that it had
// loaded before start at their pace, and not when the search for overdue runs finds them.
func TestCaughtUpRunsStartAtTheirPaceAfterADoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine.LookAhead = 30 * time.Second
	id := uuid.New()
	partition := job.PartitionOf(id)
	_, err := b.store.CreateJob(t.Context(), job.CreateParams{
		Namespace: namespace, ID: id, Actor: "test", Definition: job.Definition{
			Name: "paced", Schedule: schedule.Spec{Every: "1s"},
			Target: job.Target{Kind: "record", Config: json.RawMessage(`{}`)},
			Policy: job.Policy{Overlap: job.OverlapAllow, Missed: job.Missed{
				Policy: job.MissedAll, CatchUpWindow: job.Duration(time.Hour), Pace: job.Duration(time.Second),
			}},
		},
	})
	require.NoError(t, err)
	_, err = b.store.Plan(t.Context(), job.PlanParams{
		Session: b.engine.Member.Session(), Partitions: []int16{partition}, LookAhead: 15 * time.Second, Cursors: 10,
	})
	require.NoError(t, err)
	tag, err := b.pool.Exec(t.Context(),
		`UPDATE run SET due_at = due_at - interval '1 min', run_at = run_at - interval '1 min'`)
	require.NoError(t, err)
	planned := tag.RowsAffected()
	require.Greater(t, planned, int64(10))
	b.engine.GainPartitions(t.Context(), []job.Ownership{{Partition: partition}})
	_, err = b.pool.Exec(t.Context(), `UPDATE partition SET missed_from = now() - interval '2 min',
		missed_until = now() - interval '10 s'`) // as TrustClock does
	require.NoError(t, err)

	b.engine.Planner = withoutOverdue{b.engine.Planner, b.bound}
	b.start(t)
	b.eventually(t, "caught up", `SELECT count(*) FROM run_history WHERE origin = 3 AND ended = 1`, planned)
}
