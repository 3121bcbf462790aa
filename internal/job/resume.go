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
	// PausedAt: occurrences after it were not planned for this job. It is the instant of the pause or, if the cursor
	// was behind then, an instant just before the cursor's NextDue: occurrences between the two were not planned
	// before the pause either.
	PausedAt time.Time
	// PlannedTo is the NextDue of the job's cursor, zero if the cursor has ended. From there on the cursor plans for
	// the job, which is active again.
	PlannedTo time.Time
	Now       time.Time
	PacedTo   time.Time // when the next caught-up run may start; zero: now

	Limit   int // 0 means PlanLimit
	Results int // 0 means PlanResults
}

// Resumed decides what happens to the occurrences during a job's pause, by the policy missed.paused: those in
// (PausedAt, Now] that the cursor has passed. Those that do not run are skipped as paused, whether or not they are in
// the catch-up window.
//
// NextDue and PacedTo of the result matter only with More: call again with PausedAt just before NextDue.
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
		schedule: in.Schedule, catchUp: c, pacedTo: later(in.Now, in.PacedTo),
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

// Created decides what happens to a one-off whose time has passed when it is created: its cursor would never reach it.
// With once and all it runs now, however old it is, because a user has just asked for it. With skip it does not run,
// unless it is at most MissedGrace late: "now" by the client's clock has passed when the request arrives.
//
// Other jobs begin with FirstDue after their creation, and get nothing here.
func Created(in CreatedInput) (due []DueTime, skips []Skip) {
	if in.Schedule.Spec().At == "" {
		return nil, nil
	}
	at, err := in.Schedule.Next(schedule.BeforeAll)
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
