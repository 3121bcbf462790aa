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

// CreateInput is a job to be made.
type CreateInput struct {
	Namespace  uuid.UUID
	ID         uuid.UUID // zero: a new one
	Definition job.Definition
	Actor      string
}

// CreateJob saves a job, and writes those of its runs that the planner has gone
// past already, so a job that is due soon waits for no loop. CreatedAt is the
// instant that it was decided by: what is due later is the job's.
func (s *Store) CreateJob(ctx context.Context, in CreateInput) (job.Job, error) {
	if in.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return job.Job{}, fmt.Errorf("create job: make an id: %w", err)
		}
		in.ID = id
	}
	d, err := define(in.Definition, in.ID)
	if err != nil {
		return job.Job{}, fmt.Errorf("create job: %w", err)
	}
	var out job.Job
	err = s.retrying(ctx, "create job", func(tx pgx.Tx) error {
		queue, err := findQueue(ctx, tx, in.Namespace, d.Queue)
		if err != nil {
			return err
		}
		partition := job.PartitionOf(in.ID)
		c, now, err := s.joinCursor(ctx, tx, cursorKey{partition, in.Namespace, d.key}, d)
		if err != nil {
			return err
		}
		out = job.Job{
			ID: in.ID, Namespace: in.Namespace, Partition: partition, Version: 1,
			CreatedAt: now, UpdatedAt: now, Definition: d.Definition,
		}
		return insertJob(ctx, tx, newJob{job: &out, definition: d, cursor: c, queue: queue, actor: in.Actor})
	})
	if err != nil {
		return job.Job{}, nameTaken(err, d.Name)
	}
	return out, nil
}

// newJob is all that is written for one.
type newJob struct {
	job        *job.Job
	definition *definition
	cursor     cursor
	queue      int32
	actor      string
}

const insertJobRow = `
INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms, timeout_ms, max_runs, runs_left,
    plan_from, end_at, finished_at, created_at, updated_at, name, target_kind, target_config, payload, schedule, policy, labels, keep)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, CASE WHEN $7::smallint = 3 THEN $16::timestamptz END, $16, $16, $17, $18, $19, $20, $21, $22, $23, $24)`

const insertVersion = `INSERT INTO job_version (partition, job_id, version, actor, definition, created_at) VALUES ($1, $2, $3, $4, $5, $6)`

func insertJob(ctx context.Context, tx pgx.Tx, n newJob) error {
	j, d, now := n.job, n.definition, n.job.CreatedAt
	planFrom := d.planFrom(now)
	due, skips := job.Created(job.CreatedInput{Schedule: d.own, Missed: d.Missed, Now: now})
	ahead, err := plannedPast(d, n.cursor, planFrom, now)
	if err != nil {
		return err
	}
	due, runsLeft := limited(append(due, ahead...), d.runsLeft(0))
	j.State = n.cursor.left(d.endAt, runsLeft)

	var batch pgx.Batch
	batch.Queue(insertJobRow, j.Partition, j.ID, j.Namespace, n.cursor.id, n.queue, j.Version, j.State, d.Priority, d.admit(), d.jitter.Milliseconds(), d.timeoutMS(),
		d.MaxRuns, runsLeft, planFrom, d.endAt, now, d.Name, d.Target.Kind, d.text.config, d.payload, d.text.schedule, d.text.policy, d.text.labels, d.keep())
	batch.Queue(insertVersion, j.Partition, j.ID, j.Version, n.actor, d.text.whole, now)
	runs := runsOf{j.Partition, j.ID, j.Version, d.Priority, d.admit(), n.queue, d.own}
	runs.insert(&batch, due, now)
	runs.skip(&batch, skips, now)
	countSkips(tx, skips)
	return tx.SendBatch(ctx, &batch).Close()
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
