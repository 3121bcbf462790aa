package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestAttention(t *testing.T) {
	t.Parallel()
	o := job.Overview{ClockTrusted: true, Queues: []job.OverviewQueue{
		{ID: 1, Name: "fine"},
		{ID: 2, Name: "held", Paused: true, PausedAt: time.Date(2026, 3, 30, 10, 31, 0, 0, time.UTC)},
		{ID: 3, Name: "unused", Paused: true},
		{ID: 4, Name: "pulled"},
		{ID: 5, Name: "served", Workers: 1},
		{ID: 6, Name: "far"},
	}}
	live := &job.Live{Queues: map[int32]job.LiveCount{
		1: {Queue: 1, Due: 3, Running: 2}, 2: {Queue: 2, Due: 1}, 4: {Queue: 4, Due: 7, DuePulled: 7}, 5: {DuePulled: 9},
		6: {Due: 2, Deferred: 2, DeferredFrom: time.Date(2026, 3, 30, 10, 31, 0, 0, time.UTC), DeferredReason: "h rests"},
	}}
	o.PausedBelfry, o.PausedJobs = job.Capped{Count: 2}, job.Capped{Count: 14}
	texts := func() (out []string) {
		for _, a := range o.Attention(live) {
			out = append(out, a.Text)
		}
		return out
	}
	require.Equal(t, []string{
		"No worker asks for runs of queue pulled: 7 due runs wait.",
		"Queue held is paused since 2026-03-30 10:31 UTC: 1 due run waits.",
		"2 due runs wait in queue far since 2026-03-30 10:31 UTC, because of backpressure: h rests.",
		"Belfry paused 2 jobs after failures; 14 jobs are paused in all. belfry job list --state paused lists them.",
	}, texts())
	o.HeldUntil = time.Date(2026, 3, 30, 9, 5, 0, 0, time.UTC)
	require.Equal(t, "The database was restored to an earlier time: runs that were due before 2026-03-30 09:05 UTC are held. "+
		"belfry restore status says what to do.", texts()[0])
	o.HeldUntil = time.Time{}
	require.Equal(t, "host_resting", o.Attention(live)[2].Code)
	require.Equal(t, live.Queues[6].DeferredFrom, o.Attention(live)[2].Since)
	o.Causes = []job.DeadGroup{
		{
			Count: 4180, Last: job.DeadLetter{Message: "502 Bad Gateway: no upstream.", Cause: "c1"},
			Since: &job.DeadSince{Succeeded: 12, More: true},
		},
		{Count: 1, Last: job.DeadLetter{Message: strings.Repeat("ä", 200)}},
		{Count: 1, Last: job.DeadLetter{Reason: "attempts"}},
		{Count: 1},
	}
	require.Equal(t, []string{
		"4180 dead letters share one cause: 502 Bad Gateway: no upstream. Since then 12 or more runs of these jobs succeeded.",
		"1 dead letter: " + strings.Repeat("ä", 119) + "…",
		"1 dead letter: attempts",
	}, texts()[4:])
	require.Equal(t, "c1", o.Attention(live)[4].Cause)
	live.Queues[4] = job.LiveCount{Due: 7, DuePulled: 7, More: true}
	require.Contains(t, texts(), "No worker asks for runs of queue pulled: 7 or more due runs wait.")
	o = job.Overview{
		Unowned: 1, Namespace: uuid.New(), Findings: job.Capped{Count: 1000, More: true},
	}
	live.Broken = map[uuid.UUID]int64{o.Namespace: 1}
	require.Equal(t, []string{
		"The clock of the database is in doubt: nodes start nothing until it is confirmed.",
		"1 partition has no owner: its runs wait for a node.",
		"The audit found 1000 or more occurrences that are not in the ledger as they must be. " +
			"belfry audit ledger lists them.",
		"1 schedule cannot be planned, so its jobs do not run. belfry doctor says why.",
	}, texts())
	for i := range int32(100) {
		o.Queues = append(o.Queues, job.OverviewQueue{ID: i, Name: fmt.Sprint(i), Paused: true})
		live.Queues[i] = job.LiveCount{Due: 1}
	}
	require.Len(t, o.Attention(live), job.MaxAttention)
}
