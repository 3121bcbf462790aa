package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func (s *Server) registerBackfill() {
	o := operation("backfill-job", http.MethodPost, "/jobs/{job}:backfill", "Run a job for times that have passed", access.Operator)
	o.Description = `Makes a run for each occurrence of the job's schedule as it is now that is due at the time from or later and before the time to, which must have passed. The runs start now, one after the other at the pace; a paused or finished job has them too. The overlap policy holds for them: with skip, one that is due while another still runs is skipped, so choose a pace that leaves each its time.

Occurrences that have run, or are to run, are left out unless again is true; those that were skipped are not. At most 10,000 runs are made by one call: go_on_from then tells where the next one begins.`
	o.DefaultStatus = http.StatusAccepted
	huma.Register(s.api, o, s.backfillJob)
}

type backfillJobInput struct {
	JobPath
	Precondition
	Idempotency
	Body struct {
		From   time.Time `json:"from" doc:"Due times from this one on." example:"2026-05-01T00:00:00Z"`
		To     time.Time `json:"to" doc:"Due times before this one. It must have passed." example:"2026-05-02T00:00:00Z"`
		Pace   Duration  `json:"pace,omitempty" doc:"The distance at which the runs start, 0s to 1h. Default 1s." example:"10s"`
		Max    int       `json:"max,omitempty" minimum:"0" maximum:"10000" doc:"At most so many runs, the oldest. Default 10,000."`
		Again  bool      `json:"again,omitempty" doc:"Also what has run, or is to run."`
		DryRun bool      `json:"dry_run,omitempty" doc:"Count, and make no run."`
	}
}

type backfillJobOutput struct {
	Body struct {
		Runs       int        `json:"runs" doc:"How many runs were made; with dry_run, how many would be."`
		Known      int        `json:"known" doc:"How many occurrences were left out because they have run, or are to run."`
		FirstDueAt *time.Time `json:"first_due_at,omitempty" doc:"Due time of the first run."`
		LastDueAt  *time.Time `json:"last_due_at,omitempty" doc:"Due time of the last run."`
		GoOnFrom   *time.Time `json:"go_on_from,omitempty" doc:"The from of a call for the rest of the range. None: this was all of it."`
		DryRun     bool       `json:"dry_run" doc:"Whether it was only counted."`
	}
}

func (s *Server) backfillJob(ctx context.Context, in *backfillJobInput) (*backfillJobOutput, error) {
	order, err := s.order(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	b := &in.Body
	o := job.BackfillParams{ChangeParams: order, From: b.From, To: b.To, Pace: job.Duration(time.Second), Max: job.MaxBackfill, Again: b.Again, DryRun: b.DryRun}
	if b.Max > 0 {
		o.Max = b.Max
	}
	if b.Pace != "" {
		if err := o.Pace.UnmarshalText([]byte(b.Pace)); err != nil {
			return nil, s.problem(ctx, &job.Problem{Field: "pace", Problem: "it is not a duration", Fix: "write for example 30s"})
		}
	}
	answer := func(r any) any { return backfilled(r.(job.Backfilled), o.DryRun) }
	if !o.DryRun {
		if o.Idempotent, err = in.once("backfill-job", []any{o.ID, b}, answer); err != nil {
			return nil, s.problem(ctx, err)
		}
	}
	made, err := s.opts.Verbs.BackfillJob(ctx, o)
	if err != nil {
		out, err := recalled[backfillJobOutput](o.Idempotent, err)
		if err != nil {
			return nil, s.refused(ctx, err, &in.Precondition)
		}
		return out, nil
	}
	return backfilled(made, o.DryRun), nil
}

func backfilled(r job.Backfilled, dryRun bool) *backfillJobOutput {
	out := &backfillJobOutput{}
	b := &out.Body
	b.Runs, b.Known, b.DryRun = r.Runs, r.Known, dryRun
	for _, x := range []struct {
		to **time.Time
		at time.Time
	}{{&b.FirstDueAt, r.First}, {&b.LastDueAt, r.Last}, {&b.GoOnFrom, r.GoOn}} {
		if !x.at.IsZero() {
			*x.to = &x.at
		}
	}
	return out
}
