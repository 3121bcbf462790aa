package job

import (
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// spread returns a schedule that is spread by the operation.
func (c *OperationChange) spread(s schedule.Spec) (schedule.Spec, bool) {
	if c.Jitter == 0 {
		return s.Spread()
	}
	if has, err := schedule.ParseDuration(s.Jitter); err == nil && has >= time.Duration(c.Jitter) {
		return s, false
	}
	s.Jitter = c.Jitter.String()
	return s, true
}

// SpreadInput asks when jobs start before and after a spread.
type SpreadInput struct {
	Jobs     []Job // active or not; only active ones count
	Change   OperationChange
	From, To time.Time // whole minutes
	Budget   int       // occurrences to visit; 0 means LoadBudget
}

// SpreadResult is how many runs start in each minute. Jitter counts, as it is what a spread may change.
type SpreadResult struct {
	Before, After []int64
	Changed       int64 // jobs that the spread changes
	All           bool  // all jobs were counted
}

// SpreadPreview is a SpreadResult with the set that it is about.
type SpreadPreview struct {
	SetCount
	SpreadResult
	From time.Time // the first minute
}

// PreviewSpread counts the starts of jobs before and after a spread.
func PreviewSpread(in SpreadInput) (out SpreadResult) {
	minutes := int(in.To.Sub(in.From) / time.Minute)
	out = SpreadResult{Before: make([]int64, minutes), After: make([]int64, minutes), All: true}
	budget := orElse(in.Budget, LoadBudget)
	for _, j := range in.Jobs {
		if budget <= 0 {
			out.All = false
			return out
		}
		after, changed := in.Change.spread(j.Schedule)
		if changed {
			out.Changed++
		}
		if j.State == Active {
			budget -= countStarts(j.Schedule, &j, &in, out.Before) + countStarts(after, &j, &in, out.After)
		}
	}
	return out
}

// countStarts adds the starts of a job to minutes. It returns how many occurrences it visited.
func countStarts(spec schedule.Spec, j *Job, in *SpreadInput, minutes []int64) (visited int) {
	key := j.ID.String()
	s, err := schedule.New(spec, key)
	if err != nil {
		return compileCost
	}
	visited = compileCost
	jitter, _ := schedule.ParseDuration(spec.Jitter) // the longest time from a due time to its start
	for o := range s.All(in.From.Add(-jitter-time.Nanosecond), in.To.Add(-time.Nanosecond)) {
		visited++
		if at := s.RunAt(o.Due, key).Sub(in.From); o.Skip == "" && at >= 0 && int(at/time.Minute) < len(minutes) {
			minutes[at/time.Minute]++
		}
	}
	return visited
}
