package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// storedJob is a job with what only planning needs to know.
type storedJob struct {
	job.Job
	cursor   int64
	queue    int32
	runsLeft *int32 // nil: no limit
	// planFrom: every earlier occurrence is accounted for, also while the job is
	// paused; then those from here to the resume are what the pause kept back.
	planFrom time.Time
	pausedAt *time.Time
}

// The name of the queue is looked up in the list of columns: with a join, a row
// that was locked after a wait would be compared with the queue it had before.
const selectJob = `
SELECT j.partition, j.id, j.namespace_id, j.cursor_id, j.queue_id, j.version, j.state, j.priority, j.max_runs, j.runs_left, j.plan_from, j.paused_at,
       j.created_at, j.updated_at, j.name, j.note, j.target_kind, j.target_config, j.payload, j.schedule, j.policy, j.labels,
       (SELECT q.name FROM queue q WHERE q.id = j.queue_id)
FROM job j `

// No index can answer IS NOT DISTINCT FROM, and none shall: of a namespace that is newer than the statistics PostgreSQL
// believes that it has no jobs, and would read all of them by its name instead of the one by its key.
const whereJob = `WHERE j.partition = $1 AND j.id = $2 AND j.namespace_id IS NOT DISTINCT FROM $3`

// Job returns a job of a namespace, or ErrNotFound.
func (s *Store) Job(ctx context.Context, namespace, id uuid.UUID) (job.Job, error) {
	return s.readJob(ctx, whereJob, job.PartitionOf(id), id, namespace)
}

// JobByName returns a job of a namespace, or ErrNotFound.
func (s *Store) JobByName(ctx context.Context, namespace uuid.UUID, name string) (job.Job, error) {
	return s.readJob(ctx, `WHERE j.namespace_id = $1 AND j.name = $2`, namespace, name)
}

func (s *Store) readJob(ctx context.Context, where string, args ...any) (job.Job, error) {
	rows, err := s.pool.Query(ctx, selectJob+where, args...)
	if err != nil {
		return job.Job{}, fmt.Errorf("read job: %w", err)
	}
	stored, err := collectJob(rows)
	if err != nil {
		return job.Job{}, fmt.Errorf("read job: %w", err)
	}
	return stored.Job, nil
}

// collectJob reads the one row of selectJob.
func collectJob(rows pgx.Rows) (storedJob, error) {
	j, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if noRows(err) {
		return j, ErrNotFound
	}
	return j, err
}

func scanJob(row pgx.CollectableRow) (j storedJob, err error) {
	var config, spec, policy string
	var payload *string
	var labels []byte
	err = row.Scan(
		&j.Partition, &j.ID, &j.Namespace, &j.cursor, &j.queue, &j.Version, &j.State, &j.Priority, &j.MaxRuns, &j.runsLeft, &j.planFrom, &j.pausedAt,
		&j.CreatedAt, &j.UpdatedAt, &j.Name, &j.Note, &j.Target.Kind, &config, &payload, &spec, &policy, &labels,
		&j.Queue,
	)
	if err != nil {
		return j, err
	}
	j.planFrom, j.CreatedAt, j.UpdatedAt = j.planFrom.UTC(), j.CreatedAt.UTC(), j.UpdatedAt.UTC()
	if config != noConfig {
		j.Target.Config = json.RawMessage(config)
	}
	if payload != nil {
		j.Payload = json.RawMessage(*payload)
	}
	for _, part := range []struct {
		name string
		text []byte
		into any
	}{
		{"schedule", []byte(spec), &j.Schedule},
		{"policy", []byte(policy), &j.Policy},
		{"labels", labels, &j.Labels},
	} {
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return j, fmt.Errorf("read the %s of job %s: %w", part.name, job.FormatJobID(j.ID), err)
		}
	}
	if len(j.Labels) == 0 {
		j.Labels = nil
	}
	return j, nil
}
