package jobs

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Warning is about a definition that was saved and may not be what was meant.
type Warning struct {
	Field   string `json:"field" doc:"The field that it is about." example:"schedule.at"`
	Message string `json:"message" doc:"What is unusual, and what Belfry does."`
	Fix     string `json:"fix" doc:"What to do if it was not meant."`
}

// pastWarnings warns about a one-off whose time had passed when its schedule was saved.
func pastWarnings(j *job.Job) []Warning {
	if j.Schedule.At == "" {
		return nil
	}
	s, err := schedule.New(j.Schedule, j.ID.String())
	if err != nil {
		return nil
	}
	at, err := s.Next(schedule.BeforeAll)
	if err != nil || at.After(j.UpdatedAt.Add(-job.MissedGrace)) {
		return nil
	}
	when := at.UTC().Format(time.RFC3339)
	w := Warning{
		Field:   "schedule.at",
		Message: when + " has passed; the job runs now (missed.created: " + string(j.Missed.Created) + ")",
		Fix:     "if that was not meant, cancel the run; with missed.created skip, a one-off in the past does not run",
	}
	if j.Missed.Created == job.MissedSkip {
		w.Message = when + " has passed; the job does not run (missed.created: skip)"
		w.Fix = "set a later time, or set missed.created to once to run it now"
	}
	return []Warning{w}
}

// changedResult is jobResult for a change of a definition, with warnings about a schedule that is new.
func changedResult(j job.Job, old schedule.Spec) *JobOutput {
	r := jobResult(j)
	if j.Schedule.At != old.At || j.Schedule.Timezone != old.Timezone {
		r.Body.Warnings = pastWarnings(&j)
	}
	return r
}
