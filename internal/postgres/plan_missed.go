package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxPlannedAlone is how many jobs one transaction plans outside their cursor.
const maxPlannedAlone = 500

// behind lists cursors that missed occurrences, and how they were to be planned.
type behind struct {
	partition []int16
	cursor    []int64
	next      []time.Time
	in        map[int64]job.PlanInput // ids of cursors are unique in a database
}

func (m *behind) add(partition int16, cursor int64, in job.PlanInput) {
	m.partition, m.cursor, m.next = append(m.partition, partition), append(m.cursor, cursor), append(m.next, in.NextDue)
	if m.in == nil {
		m.in = map[int64]job.PlanInput{}
	}
	m.in[cursor] = in
}

// The coalesce keeps PostgreSQL from the index job_end, which is not ordered by cursor.
const endedMeanwhile = `
WHERE j.ctid = ANY (ARRAY(
    SELECT x.address
    FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id,
                 unnest($3::timestamptz[]) AS next_due_at) k, LATERAL (
        SELECT ctid AS address FROM job
        WHERE partition = k.partition AND cursor_id = k.cursor_id AND state = 1 /* active */
          AND coalesce(end_at, 'infinity') > k.next_due_at AND coalesce(end_at, 'infinity') <= $4
        LIMIT $5) x
    LIMIT $5))
FOR UPDATE OF j`

const finishPlannedAlone = `
UPDATE job SET state = 3 /* finished */, finished_at = $3, runs_left = $4 WHERE partition = $1 AND id = $2`

// planEndedAlone plans jobs separately whose end lies in a time in which no node planned. Their cursor chooses the
// newest occurrence that it missed, which may lie after the end of such a job, so the newest occurrence before its end
// has to run instead. It returns whether there may be more such jobs.
func planEndedAlone(ctx context.Context, tx pgx.Tx, m *behind, now time.Time) (more bool, err error) {
	if len(m.cursor) == 0 {
		return false, nil
	}
	query := jobFields + `, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz FROM job j ` + //nolint:dupword // three columns
		endedMeanwhile
	rows, err := tx.Query(ctx, query, m.partition, m.cursor, m.next, now, maxPlannedAlone)
	if err != nil {
		return false, err
	}
	ended, err := pgx.CollectRows(rows, scanJob)
	if err != nil {
		return false, err
	}
	var batch pgx.Batch
	written, visits := 0, planVisits // a job has at most job.MaxMissed runs here
	for i := range ended {
		if written >= job.PlanRuns || visits <= 0 {
			more = true
			break
		}
		j := &ended[i]
		left := j.runsLeft
		// If the definition cannot be read, the cursor has accounted for the job.
		d, r, err := planAlone(j, m.in[j.cursor])
		visits -= r.Visited
		if err == nil {
			var due []job.DueTime
			due, left = limited(r.Due, left)
			written += len(due)
			runs := d.runsOf(&j.Job, j.queueID)
			runs.insert(tx, &batch, due, now)
			runs.skip(&batch, r.Skips, now)
			countSkips(tx, j.queueID, r.Skips)
		}
		batch.Queue(finishPlannedAlone, j.Partition, j.ID, now, left)
	}
	return more || len(ended) == maxPlannedAlone, tx.SendBatch(ctx, &batch).Close()
}

// planAlone plans one job from where its cursor was until now.
func planAlone(j *jobRow, in job.PlanInput) (*definition, job.PlanResult, error) {
	d, err := derive(j.Definition, j.ID)
	if err != nil {
		return nil, job.PlanResult{}, err
	}
	in.Schedule, in.Missed, in.NextDue, in.Until = d.own, d.Missed, later(j.planFrom, in.NextDue), in.Now
	in.Results, in.Limit = 0, 0 // of one job
	r, err := planAll(in)
	return d, r, err
}
