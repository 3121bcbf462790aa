package job

import (
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// ResumedInput is a paused job at the instant of its resume.
type ResumedInput struct {
	Schedule *schedule.Schedule // with start_at and end_at
	Missed   Missed             // with defaults
	// PausedAt: the pause kept occurrences after it from being planned for this
	// job. That is the instant of the pause; or, where the cursor was behind
	// then, an instant just before the cursor's NextDue: what lies between was
	// not planned before the pause either.
	PausedAt time.Time
	// PlannedTo is the NextDue of the job's cursor, or zero if it has ended.
	// From there on the cursor itself plans for the job, active again.
	PlannedTo time.Time
	Now       time.Time

	Limit   int // 0: PlanLimit
	Results int // 0: PlanResults
}

// Resumed says what becomes of the occurrences of a job's pause, by the policy
// missed.paused: those in (PausedAt, Now] that the cursor has gone past. Those
// that do not run are skipped as paused, in or out of the window.
//
// Of the result, NextDue matters with More only: call again with PausedAt just
// before it.
func Resumed(in ResumedInput) (PlanResult, error) {
	if in.PausedAt.IsZero() || in.Now.IsZero() {
		return PlanResult{}, errors.New("job: resume needs the instant of the pause and its own")
	}
	c, err := newCatchUp(in.Missed, in.Missed.Paused, in.Now)
	if err != nil {
		return PlanResult{}, err
	}
	c.tooOld, c.tooMany = ReasonPaused, ReasonPaused
	from, to := in.PausedAt.Add(time.Nanosecond), in.Now
	if !in.PlannedTo.IsZero() && !in.PlannedTo.After(to) {
		to = in.PlannedTo.Add(-time.Nanosecond)
	}
	c.choose(in.Schedule, from, to)
	p := planner{
		schedule: in.Schedule, now: in.Now, catchUp: c,
		limit: orElse(in.Limit, PlanLimit), results: orElse(in.Results, PlanResults),
	}
	return p.plan(from, to)
}

// CreatedInput is a job at the instant of its creation.
type CreatedInput struct {
	Schedule *schedule.Schedule // with start_at and end_at
	Missed   Missed             // with defaults
	Now      time.Time
}

// Created says what becomes of a one-off whose time has passed when it is
// created: its cursor would never come to it. With once and all it runs now,
// however old it is, for somebody just asked for it; with skip it does not,
// unless it is merely late (MissedGrace): "now" by the client's clock has
// passed by the time that it is here.
//
// Anything else begins with FirstDue after its creation, and gets nothing here.
func Created(in CreatedInput) (due []DueTime, skips []Skip) {
	if in.Schedule.Spec().At == "" {
		return nil, nil
	}
	at, err := in.Schedule.Next(beforeAll)
	if err != nil || at.After(in.Now) {
		return nil, nil
	}
	at = at.UTC()
	switch {
	case at.After(in.Now.Add(-MissedGrace)):
		return []DueTime{{DueAt: at, RunAt: at, Origin: FromSchedule}}, nil
	case in.Missed.Created == MissedSkip:
		return nil, []Skip{{From: at, To: at, Count: 1, Reason: ReasonMissed}}
	default:
		return []DueTime{{DueAt: at, RunAt: in.Now, Origin: FromMissed}}, nil
	}
}

// beforeAll is before every time that a schedule can name.
var beforeAll = time.Unix(0, 0).Add(-48 * time.Hour)
