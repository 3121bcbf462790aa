package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
)

// CreateJob saves a job, and writes those of its runs that the planner has gone
// past already, so a job that is due soon waits for no loop. CreatedAt is the
// instant that it was decided by: what is due later is the job's.
func (a *API) CreateJob(ctx context.Context, in job.CreateParams) (job.Job, error) {
	n, err := newJobOf(in.ID, in.Definition)
	if err != nil {
		return job.Job{}, fmt.Errorf("create job: %w", err)
	}
	err = a.retrying(ctx, in.Namespace, "create job", func(tx pgx.Tx) error {
		if err := replayOrClaim(ctx, tx, in.Namespace, in.Idempotent); err != nil {
			return err
		}
		c := creation{store: a, tx: tx, namespace: in.Namespace, actor: in.Actor, jobs: []*newJob{n}}
		if err := c.create(ctx); err != nil {
			return err
		}
		if err := storeResponse(ctx, tx, in.Namespace, in.Idempotent, n.job); err != nil {
			return err
		}
		return audit(ctx, tx, auditParams{in.Namespace, in.Actor, "job.create", job.FormatJobID(n.job.ID)}, named{n.job.Name})
	})
	if err != nil {
		return job.Job{}, nameTaken(err, n.definition.Name)
	}
	return n.job, nil
}

// newJob is a job to be made, and what is known of it so far.
type newJob struct {
	job        job.Job
	definition *definition
	cursor     cursor
}

func newJobOf(id uuid.UUID, d job.Definition) (n *newJob, err error) {
	if id == uuid.Nil {
		if id, err = uuid.NewV7(); err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
	}
	checked, err := define(d, id)
	if err != nil {
		return nil, err
	}
	return &newJob{job: job.Job{ID: id, Partition: job.PartitionOf(id)}, definition: checked}, nil
}

// runsLeft is what max_runs leaves when so many were used; nil: no limit.
func (d *definition) runsLeft(used int32) *int32 {
	if d.MaxRuns == 0 {
		return nil
	}
	left := max(d.MaxRuns-used, 0)
	return &left
}

// nameTaken gives the violation of a unique name or id its words.
func nameTaken(err error, name string) error {
	server, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok || server.Code != "23505": // unique_violation
		return err
	case server.ConstraintName == "job_name_key":
		return fmt.Errorf("%w: there is a job called %q", ErrConflict, name)
	default:
		return fmt.Errorf("%w: there is such a job already (%s)", ErrConflict, server.ConstraintName)
	}
}
