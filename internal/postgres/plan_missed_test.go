package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestOnceRunsTheNewestThatIsTheJobs: of the missed occurrences the newest runs. For a job that ended meanwhile, that
// is the newest before its end, even if another job of the schedule has a newer one.
func TestOnceRunsTheNewestThatIsTheJobs(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	const outage = 20 * time.Minute
	ends, goesOn := b.create(definition("ends", everyMinute)), b.create(definition("goes on", everyMinute))
	end := b.now().Add(-8 * time.Minute).Truncate(time.Minute)
	b.back(ends, outage)
	b.back(goesOn, outage)
	b.cursorBack(ends, outage)
	b.exec(`DELETE FROM run`) // of the look-ahead of create
	b.exec(
		`UPDATE job SET end_at = $2, schedule = $3 WHERE id = $1`, ends.ID, end,
		fmt.Sprintf(`{"every":"1m","end_at":%q}`, end.Format(time.RFC3339)),
	)
	for more := true; more; {
		more = b.plan(time.Minute).More
	}

	live := b.live(ends)
	require.Len(t, live, 1)
	require.Equal(t, end.Add(-time.Minute), live[0].Due, "an end is not itself an occurrence")
	require.Equal(t, job.FromMissed, live[0].Origin)
	skipped := b.ended(ends)
	require.Len(t, skipped, 1, "the others are one range")
	require.Equal(t, job.ReasonMissed, skipped[0].Reason)
	require.Equal(t, end.Add(-2*time.Minute), skipped[0].To)
	require.Equal(t, job.Finished, b.get(ends).State)

	other := b.live(goesOn)
	require.NotEmpty(t, other)
	require.True(t, other[0].Due.After(end), "its newest is another")
	require.Equal(t, job.Active, b.get(goesOn).State)
}
