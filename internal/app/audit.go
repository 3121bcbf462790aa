package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// AuditParams says what to audit.
type AuditParams struct {
	auditor.Params
	Job      string                  // id or name; empty: all jobs of all namespaces
	Backfill bool                    // run what is missing
	Progress func(done, total int64) // called after each page
}

// AuditResult is the result of an audit.
type AuditResult struct {
	auditor.Report
	Window     auditor.Window // what was judged
	AskedFrom  time.Time
	JudgedFrom time.Time // the first due time that can be judged: older history is not kept
	Namespaces map[uuid.UUID]string

	BackfilledNow int     // missing occurrences that run now
	NotBackfilled []error // why others do not
}

// Audit compares the ledger with what the schedules demand. It needs the URL of the database, as it sees all
// namespaces.
func Audit(ctx context.Context, url string, p AuditParams) (out AuditResult, err error) {
	err = database.With(ctx, database.At{URL: url}, func(db *postgres.DB) error {
		if err := p.find(ctx, db.Admin()); err != nil {
			return err
		}
		a, err := db.Admin().AuditLedger(ctx, p.Params)
		if err != nil {
			return err
		}
		asked := a.Asked()
		if !asked.From.Before(asked.To) {
			return fmt.Errorf("--from %s is not before --to %s",
				asked.From.Format(time.RFC3339), asked.To.Format(time.RFC3339))
		}
		out.Window, out.AskedFrom, out.JudgedFrom = a.Window(), asked.From, a.Floor()
		for more := true; more; {
			var r auditor.Report
			var at int16
			if r, at, more, err = a.Page(ctx); err != nil {
				return err
			}
			out.Add(r)
			if p.Progress != nil {
				p.Progress(int64(at), job.Partitions)
			}
		}
		all, err := db.Admin().Namespaces(ctx)
		if err != nil {
			return err
		}
		out.Namespaces = map[uuid.UUID]string{}
		for _, n := range all {
			out.Namespaces[n.ID] = n.Name
		}
		if p.Backfill {
			return out.backfill(ctx, db.API())
		}
		return nil
	})
	return out, err
}

// find finds the job by its id or name.
func (p *AuditParams) find(ctx context.Context, store *postgres.Admin) error {
	if p.Job == "" {
		return nil
	}
	if id, err := job.ParseJobID(p.Job); err == nil {
		p.Jobs = []uuid.UUID{id}
		return nil
	}
	found, err := store.JobsNamed(ctx, p.Job)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there is no job %q; a deleted job is named by its id", p.Job)
	}
	p.Jobs = found
	return err
}

// backfill runs the missing occurrences that were found.
func (r *AuditResult) backfill(ctx context.Context, store *postgres.API) error {
	for _, f := range r.Findings {
		if f.Kind != auditor.Missing {
			continue
		}
		done, err := store.BackfillJob(ctx, job.BackfillParams{
			ChangeParams: job.ChangeParams{Namespace: f.Namespace, ID: f.Job, Actor: "belfry"},
			From:         f.DueAt, To: f.DueAt.Add(time.Microsecond), Max: 1,
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case errors.Is(err, job.ErrNotFound):
			err = errors.New("the job is deleted")
		case err == nil && done.Runs == 0:
			err = errors.New("the job has no such occurrence any more, or it has a run already; trigger the job")
		}
		if err != nil {
			at := f.DueAt.Format(time.RFC3339)
			r.NotBackfilled = append(r.NotBackfilled, fmt.Errorf("%s at %s: %w", job.FormatJobID(f.Job), at, err))
			continue
		}
		r.BackfilledNow++
	}
	return nil
}
