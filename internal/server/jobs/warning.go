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

// clearWarnings warns about a target that sends a secret in clear text.
func (h *Handlers) clearWarnings(j *job.Job) []Warning {
	if h.clear == nil || !h.clear(j.Target) {
		return nil
	}
	return []Warning{{
		Field:   "target.config",
		Message: "a stored secret is sent over the network without encryption, where others can read it",
		Fix:     "use https",
	}}
}

// changedResult is jobResult for a change of a definition, with warnings about it. A schedule that stays as it is causes
// none.
func (h *Handlers) changedResult(j job.Job, old schedule.Spec) *JobOutput {
	r := jobResult(j)
	if j.Schedule.At != old.At || j.Schedule.Timezone != old.Timezone {
		r.Body.Warnings = pastWarnings(&j)
	}
	r.Body.Warnings = append(r.Body.Warnings, h.clearWarnings(&j)...)
	return r
}
