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

// CreateJob saves a job, and writes the runs that the planner has already passed, so that a job that is due soon does
// not wait for the planner. The job's occurrences begin after CreatedAt.
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
		entry := auditParams{in.Namespace, in.Actor, "job.create", job.FormatJobID(n.job.ID)}
		err := a.log.write(ctx, tx, entry, struct {
			named
			used
		}{named{n.job.Name}, a.log.used(n.definition.Target)})
		if err != nil {
			return err
		}
		return c.checkQuotas(ctx)
	})
	if err != nil {
		return job.Job{}, nameTaken(err, n.definition.Name)
	}
	return n.job, nil
}

// newJob is a job that is being created.
type newJob struct {
	job        job.Job
	definition *definition
	cursor     cursor
}

func newJobOf(id uuid.UUID, d job.Definition) (n *newJob, err error) {
	if id == uuid.Nil {
		if id, err = uuid.NewV7(); err != nil {
			return nil, fmt.Errorf("generate an id: %w", err)
		}
	}
	checked, err := define(d, id)
	if err != nil {
		return nil, err
	}
	return &newJob{job: job.Job{ID: id, Partition: job.PartitionOf(id)}, definition: checked}, nil
}

// nameTaken turns the violation of a unique name or id into an error for the user.
func nameTaken(err error, name string) error {
	server, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok || server.Code != "23505": // unique_violation
		return err
	case server.ConstraintName == "job_name_key":
		return fmt.Errorf("%w: a job named %q already exists; replace it with PUT, or change it with PATCH", job.ErrConflict, name)
	default:
		return fmt.Errorf("%w: there is such a job already (%s)", job.ErrConflict, server.ConstraintName)
	}
}
