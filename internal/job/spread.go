package job

import (
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// spread returns the schedule of a job as the operation, which began at an instant, spreads it. A jitter leaves jobs
// alone that run as often as that: it would move their runs into each other, and spread nothing.
func (c *OperationChange) spread(j *Job, began time.Time) (out schedule.Spec, changed bool) {
	if out = j.Schedule; c.Jitter == 0 {
		out, changed = out.Spread()
	} else if has, err := schedule.ParseDuration(out.Jitter); err != nil || has < time.Duration(c.Jitter) {
		out.Jitter, changed = c.Jitter.String(), true
	}
	if !changed || c.Jitter == 0 && c.DueTo.IsZero() {
		return out, changed
	}
	s, err := schedule.New(j.Schedule, j.ID.String())
	if err != nil {
		return j.Schedule, false
	}
	due, err := s.Next(orElse(c.DueFrom, began).Add(-time.Nanosecond))
	if !c.DueTo.IsZero() && (err != nil || !due.Before(c.DueTo)) {
		return j.Schedule, false
	}
	if next, err := s.Next(due); err == nil && next.Sub(due) <= time.Duration(c.Jitter) {
		return j.Schedule, false
	}
	return out, true
}

// SpreadInput asks when jobs start before and after a spread.
type SpreadInput struct {
	Jobs     []Job // active or not; only active ones count
	Change   OperationChange
	From, To time.Time // whole minutes
	Budget   int       // occurrences to visit; 0 means LoadBudget
}

// SpreadResult is how many runs of the jobs that change start in each minute. Jitter counts, as it is what a spread may change.
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
		budget -= compileCost
		after, changed := in.Change.spread(&j, in.From)
		if !changed {
			continue
		}
		out.Changed++
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
