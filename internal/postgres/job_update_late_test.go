package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

var yearly = schedule.Spec{Cron: "0 0 1 1 *", Timezone: "UTC"}

// TestUpdateSkipsOnlyWhatWasMissed: a cursor that is behind although a node serves its partition is late, and its
// occurrences run whatever the missed policy says. An update treats them as plan would.
func TestUpdateSkipsOnlyWhatWasMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		renewed        time.Duration // ago
		missed, broken bool
	}{
		{name: "late"},
		{name: "no node serves the partition", renewed: time.Minute, missed: true},
		{name: "the cursor could not be planned", broken: true, missed: true},
	} {
		b := setupJobs(t)
		d := definition("a", everySecond)
		d.Missed.Policy = job.MissedSkip
		j := b.create(d)
		b.back(j, time.Minute)
		b.cursorBack(j, time.Minute)
		b.exec(`UPDATE partition SET missed_until = NULL`)
		if c.broken {
			b.exec(`UPDATE cursor SET broken_at = now() - interval '1 min', problem = 'x'`)
		}
		node := b.session()
		b.take(node, b.ownership())
		b.renewed(node, c.renewed)
		d.Schedule = yearly
		changed := b.update(j, d)
		all := grid(time.Second, j.CreatedAt.Add(-time.Minute), changed.UpdatedAt)
		if !c.missed {
			require.Equal(t, all, dueTimes(b.live(j)), c.name)
			require.Empty(t, b.ended(j), c.name)
			continue
		}
		require.Len(t, b.ended(j), 1, c.name)
		skipped := b.ended(j)[0]
		require.Equal(t, job.ReasonMissed, skipped.Reason, c.name)
		require.Equal(t, all[:skipped.Count], grid(time.Second, all[0].Add(-1), skipped.To), c.name)
		require.Equal(t, all[skipped.Count:], dueTimes(b.live(j)), c.name)
	}
}

// TestUpdateDecidesMissedRunsByTheOldSchedule: what was missed before an update follows the old schedule and policy, also
// if the owner has not decided yet.
func TestUpdateDecidesMissedRunsByTheOldSchedule(t *testing.T) {
	t.Parallel()
	for _, planned := range []time.Duration{10 * time.Minute, 30 * time.Minute} { // of the 20 minutes
		for !updateDecidesMissedRuns(t, planned) {
			t.Log("the minute changed, so jobs have different occurrences")
		}
	}
}

func updateDecidesMissedRuns(t *testing.T, planned time.Duration) (sameMinute bool) {
	t.Helper()
	b := setupJobs(t)
	minute := func() (m time.Time) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT date_trunc('minute', now())`).Scan(&m))
		return m
	}
	before := minute()
	var jobs []job.Job
	for _, policy := range []job.MissedPolicy{job.MissedSkip, job.MissedOnce, job.MissedAll} {
		d := definition(string(policy), everyMinute)
		d.Missed.Policy = policy
		jobs = append(jobs, b.create(d))
	}
	node := b.unservedAfter(planned, jobs...)
	for _, j := range jobs {
		d := j.Definition
		d.Schedule = yearly
		b.update(j, d)
	}
	b.catchUp(node)
	if !minute().Equal(before) {
		return false
	}
	_, until := b.gap()
	missed := grid(time.Minute, b.ledger(jobs[0])[0].Due.Add(-time.Minute), until.Add(-1))
	n := len(missed)
	require.Greater(t, n, 17)
	require.Equal(t, map[string][]time.Time{"missed": missed}, b.fates(jobs[0]), planned)
	require.Equal(t, map[string][]time.Time{"missed": missed[:n-1], "runs": missed[n-1:]}, b.fates(jobs[1]), planned)
	require.Equal(t, map[string][]time.Time{"runs": missed}, b.fates(jobs[2]), planned)
	for _, j := range jobs {
		var last time.Time
		for _, e := range b.live(j) {
			if e.Origin == job.FromMissed {
				require.True(t, last.IsZero() || e.RunAt.Sub(last) >= time.Second, "pace")
				last = e.RunAt
			}
		}
	}
	return true
}
