package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// jobRow is a job with the columns that only planning needs.
type jobRow struct {
	job.Job
	cursor  int64
	queueID int32
	// planFrom: every earlier occurrence is accounted for. While the job is paused, the pause covers the occurrences
	// from here to the resume.
	planFrom time.Time
	endAt    *time.Time // it has no occurrence from here on; nil: no end
	pending  *time.Time // see job.NextDueInput
	later    *time.Time // the same
	next     *time.Time // of the cursor
}

// nextDue returns when the job is due next. It returns the zero time for a schedule that cannot be read, because a user
// must be able to read and replace such a job.
func (j *jobRow) nextDue() time.Time {
	own, err := schedule.New(j.Schedule, j.ID.String())
	if err != nil {
		return time.Time{}
	}
	next := j.next
	if next != nil && j.endAt != nil && !next.Before(*j.endAt) {
		next = nil
	}
	return job.NextDue(job.NextDueInput{
		State: j.State, Pending: j.pending, Later: j.later, Cursor: next, PlanFrom: j.planFrom, Schedule: own,
	})
}

// A subquery reads the name of the queue. With a join, a row that was locked after a wait would be compared with the
// queue that it had before.
const jobFields = `
SELECT j.partition, j.id, j.namespace_id, j.cursor_id, j.queue_id, j.version, j.state, j.priority, j.plan_from,
       j.end_at, j.paused_at, j.created_at, j.updated_at, j.name, j.note, j.target_kind, j.target_config, j.payload,
       j.schedule, j.policy, j.labels, j.description, j.owner, j.created_by, j.updated_by, j.paused_by, j.paused_until,
       (SELECT q.name FROM queue q WHERE q.id = j.queue_id)`

// jobColumns is what scanJob reads: a job, and what determines when it is due next.
const jobColumns = jobFields + `,
       (SELECT c.next_due_at FROM cursor c WHERE c.partition = j.partition AND c.id = j.cursor_id),
       ` + firstPending + `, (
           SELECT min(r.due_at) FROM run r
           WHERE r.partition = j.partition AND r.job_id = j.id AND r.seq > 0
             AND r.state = 0 /* pending */ AND r.attempt = 0 AND r.due_at > now())`

const selectJob = jobColumns + `
FROM job j `

// selectJobs reads many jobs by their keys, in the order of the keys.
const selectJobs = jobColumns + `
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS id,
             generate_subscripts($1::smallint[], 1) AS n) k, LATERAL (
    SELECT * FROM job WHERE partition = k.partition AND id = k.id LIMIT 1) j
ORDER BY k.n`

// firstPending is the due time of the first run by schedule of job j that has not started.
const firstPending = `(
           SELECT min(r.due_at) FROM run r
           WHERE r.partition = j.partition AND r.job_id = j.id AND r.seq = 0
             AND r.state = 0 /* pending */ AND r.attempt = 0)`

// No index serves IS NOT DISTINCT FROM, on purpose: if a namespace is newer than the statistics, PostgreSQL believes
// that it has no jobs, and would read all jobs of the namespace instead of the one by its key.
const whereJob = `WHERE j.partition = $1 AND j.id = $2 AND j.namespace_id IS NOT DISTINCT FROM $3`

// Job returns a job of a namespace, or ErrNotFound.
func (a *API) Job(ctx context.Context, namespace, id uuid.UUID) (job.Job, error) {
	return a.readJob(ctx, namespace, whereJob, job.PartitionOf(id), id, namespace)
}

// JobByName returns a job of a namespace, or ErrNotFound.
func (a *API) JobByName(ctx context.Context, namespace uuid.UUID, name string) (job.Job, error) {
	return a.readJob(ctx, namespace, `WHERE j.namespace_id IS NOT DISTINCT FROM $1 AND j.name = $2`, namespace, name)
}

// selectNamed reads jobs by their names. IS NOT DISTINCT FROM: see whereJob.
const selectNamed = jobColumns + `
FROM unnest($2::text[]) n, LATERAL (
    SELECT * FROM job WHERE namespace_id IS NOT DISTINCT FROM $1 AND name = n LIMIT 1) j`

// JobsByName returns the jobs of a namespace that have one of some names, by their names.
func (a *API) JobsByName(ctx context.Context, namespace uuid.UUID, names []string) (map[string]job.Job, error) {
	out := make(map[string]job.Job, len(names))
	err := a.db.Query(ctx, store.In(namespace, store.KeyLookups), func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, (&jobScan{policies: map[string]job.Policy{}}).job)
		for i := range found {
			out[found[i].Name] = found[i].Job
		}
		return err
	}, selectNamed, namespace, names)
	if err != nil {
		return nil, fmt.Errorf("read jobs by name: %w", err)
	}
	return out, nil
}

func (a *API) readJob(ctx context.Context, namespace uuid.UUID, where string, args ...any) (job.Job, error) {
	var row jobRow
	err := a.db.Query(ctx, store.In(namespace, store.KeyLookups), func(rows pgx.Rows) (err error) {
		row, err = collectJob(rows)
		return err
	}, selectJob+where, args...)
	if err != nil {
		return job.Job{}, fmt.Errorf("read job: %w", err)
	}
	row.NextDue = row.nextDue()
	return row.Job, nil
}

// collectJob reads the one row of selectJob.
func collectJob(rows pgx.Rows) (jobRow, error) {
	j, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if store.NoRows(err) {
		return j, job.ErrNotFound
	}
	return j, err
}

func scanJob(row pgx.CollectableRow) (j jobRow, err error) { return (&jobScan{}).job(row) }

// jobScan reads jobs. policies, if not nil, caches decoded policies: the jobs of a list have few different ones.
type jobScan struct{ policies map[string]job.Policy }

func (s *jobScan) job(row pgx.CollectableRow) (j jobRow, err error) {
	var config, spec, policy string
	var payload *string
	var labels []byte
	var pausedAt, pausedUntil *time.Time
	err = row.Scan(
		&j.Partition, &j.ID, &j.Namespace, &j.cursor, &j.queueID, &j.Version, &j.State, &j.Priority, &j.planFrom,
		&j.endAt, &pausedAt, &j.CreatedAt, &j.UpdatedAt, &j.Name, &j.Note, &j.Target.Kind, &config, &payload, &spec,
		&policy, &labels, &j.Description, &j.Owner, &j.CreatedBy, &j.UpdatedBy, &j.PausedBy, &pausedUntil, &j.Queue,
		&j.next, &j.pending, &j.later,
	)
	if err != nil {
		return j, err
	}
	j.planFrom, j.CreatedAt, j.UpdatedAt = j.planFrom.UTC(), j.CreatedAt.UTC(), j.UpdatedAt.UTC()
	j.PausedAt, j.PausedUntil = store.OrZero(pausedAt).UTC(), store.OrZero(pausedUntil).UTC()
	if config != noConfig {
		j.Target.Config = json.RawMessage(config)
	}
	if payload != nil {
		j.Payload = json.RawMessage(*payload)
	}
	had, known := s.policies[policy]
	if known {
		j.Policy, policy = had, "" // read before
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
		if len(part.text) == 0 {
			continue
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return j, fmt.Errorf("read the %s of job %s: %w", part.name, job.FormatJobID(j.ID), err)
		}
	}
	if s.policies != nil && !known {
		s.policies[policy] = j.Policy
	}
	if len(j.Labels) == 0 {
		j.Labels = nil
	}
	return j, nil
}
