package jobs

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const aboutBackfill = "Creates a run for each occurrence of the job's current schedule that is due " +
	"at the time from or later and before the time to, which must have passed. " +
	"The runs start now, one after the other at the pace; a paused or finished job has them too. " +
	"The overlap policy holds for them: with skip, one that is due while another still runs is skipped, " +
	"so choose a pace that leaves each its time.\n\n" +
	"Occurrences that have run, or are to run, are left out unless again is true; those that were skipped are not. " +
	"One call creates at most 10,000 runs: continue_from is then where the next one begins. A job may get runs while " +
	"fewer than 4,000 of it have not ended (19,000 with overlap allow), and while its namespace has fewer than about " +
	"1,000,000. A call creates as many as fit, and is rejected with 409 if none does: repeat it when some have ended. " +
	"Operations that retry or redrive runs wait by themselves. With dry_run these limits do not count."

func (h *Handlers) registerBackfill() {
	rest.Register(h.api, rest.Operation{
		ID: "backfill-job", Route: "POST /jobs/{job}:backfill", Summary: "Run a job for times that have passed",
		Description: aboutBackfill, Role: access.Operator, Status: http.StatusAccepted,
		Example: `{"from":"2026-05-01T00:00:00Z","to":"2026-05-02T00:00:00Z","pace":"10s","dry_run":true}`,
	}, h.backfillJob)
}

// BackfillRequest asks for runs of times that have passed.
type BackfillRequest struct {
	From   time.Time     `json:"from" doc:"First due time, inclusive." example:"2026-05-01T00:00:00Z"`
	To     time.Time     `json:"to" doc:"End, exclusive. Must be in the past." example:"2026-05-02T00:00:00Z"`
	Pace   rest.Duration `json:"pace,omitempty" doc:"Time between two starts, 0s to 1h. Default 1s." example:"10s"`
	Max    int           `json:"max,omitempty" minimum:"1" maximum:"10000" doc:"Maximum, oldest first. Default 10,000."`
	Again  bool          `json:"again,omitempty" doc:"Include occurrences that already have a run."`
	DryRun bool          `json:"dry_run,omitempty" doc:"Only count; create no runs."`
}

type backfillJobInput struct {
	JobPath
	Precondition
	rest.Idempotency
	Body BackfillRequest
}

// Backfill says which runs a backfill created.
type Backfill struct {
	Runs         int        `json:"runs" doc:"Number of runs created, or with dry_run, that would be created."`
	Existing     int        `json:"existing" doc:"Number of occurrences left out because they already have a run."`
	FirstDueAt   *time.Time `json:"first_due_at,omitempty" doc:"Due time of the first run."`
	LastDueAt    *time.Time `json:"last_due_at,omitempty" doc:"Due time of the last run."`
	ContinueFrom *time.Time `json:"continue_from,omitempty" doc:"from of the call for the rest. Absent: none is left."`
	DryRun       bool       `json:"dry_run" doc:"Whether the runs were only counted."`
}

type backfillJobOutput struct {
	Body Backfill
}

// defaultPace is the distance between runs of a backfill.
const defaultPace = time.Second

func (h *Handlers) backfillJob(ctx context.Context, in *backfillJobInput) (*backfillJobOutput, error) {
	change, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	pace, err := b.Pace.Parse("pace", defaultPace, "30s")
	if err != nil {
		return nil, err
	}
	params := job.BackfillParams{
		ChangeParams: change, From: b.From, To: b.To, Pace: job.Duration(pace), Max: cmp.Or(b.Max, job.MaxBackfill),
		Again: b.Again, DryRun: b.DryRun,
	}
	if b.DryRun { // it changes nothing, so nothing is stored for its Idempotency-Key
		in.IdempotencyKey = ""
	}
	response := func(r job.BackfillResult) *backfillJobOutput { return backfilled(r, b.DryRun) }
	backfill := func(once *job.IdempotentRequest) (job.BackfillResult, error) {
		params.Idempotent = once
		return h.verbs.BackfillJob(ctx, params)
	}
	out, err := rest.Once(&in.Idempotency, "backfill-job", []any{params.ID, b}, response, backfill)
	return out, in.failed(err)
}

func backfilled(r job.BackfillResult, dryRun bool) *backfillJobOutput {
	out := &backfillJobOutput{}
	b := &out.Body
	b.Runs, b.Existing, b.DryRun = r.Runs, r.Known, dryRun
	b.FirstDueAt, b.LastDueAt = rest.OptionalTime(r.First), rest.OptionalTime(r.Last)
	b.ContinueFrom = rest.OptionalTime(r.ContinueFrom)
	return out
}
