package job

import "time"

// The pause before a cursor that could not be planned is tried again.
const (
	brokenPauseMin = time.Minute
	brokenPauseMax = time.Hour
)

// RetryBroken says when a cursor that could not be planned now is to be tried
// again: soon at first, as during an upgrade a node may meet what only newer
// ones can read, and ever more rarely. since is when it first could not be;
// nil: now. The planner looks ahead until until, so the pause begins there.
func RetryBroken(since *time.Time, now, until time.Time) time.Time {
	pause := brokenPauseMin
	if since != nil {
		pause = min(max(now.Sub(*since), brokenPauseMin), brokenPauseMax)
	}
	return until.Add(pause)
}
