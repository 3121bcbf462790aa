package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxSettled is how many jobs that ended while nobody planned one transaction settles.
const maxSettled = 500

// behind is cursors whose occurrences were missed, and where they were.
type behind struct {
	partition []int16
	cursor    []int64
	next      []time.Time
}

func (m *behind) add(partition int16, cursor int64, next time.Time) {
	m.partition, m.cursor, m.next = append(m.partition, partition), append(m.cursor, cursor), append(m.next, next)
}

// The coalesce keeps PostgreSQL from the index on end_at, which is not the cursor's.
const endedMeanwhile = `
WHERE j.ctid = ANY (ARRAY(
    SELECT x.address
    FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id, unnest($3::timestamptz[]) AS next_due_at) k, LATERAL (
        SELECT ctid AS address FROM job
        WHERE partition = k.partition AND cursor_id = k.cursor_id AND state = 1
          AND coalesce(end_at, 'infinity') > k.next_due_at AND coalesce(end_at, 'infinity') <= $4
        LIMIT $5) x
    LIMIT $5))
FOR UPDATE OF j`

const finishSettled = `
UPDATE job SET state = 3, finished_at = $3, runs_left = $4 WHERE partition = $1 AND id = $2`

// settleEnded plans, each for itself, jobs whose end lies in a time that nobody planned. Of what their cursor missed it
// chooses the newest to run, and that may lie behind their end; but the newest that is theirs has to. It returns
// how many there were.
func settleEnded(ctx context.Context, tx pgx.Tx, m *behind, now time.Time) (n int, err error) {
	if len(m.cursor) == 0 {
		return 0, nil
	}
	rows, err := tx.Query(ctx, jobFields+`, NULL::timestamptz, NULL::timestamptz FROM job j `+endedMeanwhile, m.partition, m.cursor, m.next, now, maxSettled)
	if err != nil {
		return 0, err
	}
	next := make(map[int64]time.Time, len(m.cursor))
	for i, id := range m.cursor {
		next[id] = m.next[i] // ids of cursors are unique in a shard
	}
	ended, err := pgx.CollectRows(rows, scanJob)
	if err != nil {
		return 0, err
	}
	var batch pgx.Batch
	for i := range ended {
		j := &ended[i]
		left := j.runsLeft
		if d, r, err := settle(j, next[j.cursor], now); err == nil { // if it cannot be read, its cursor has accounted for it
			var due []job.DueTime
			due, left = limited(r.Due, left)
			runs := runsOf{j.Partition, j.ID, j.Version, d.Priority, int16(d.AdmitRule()), j.queueID, d.concurrencyKey(j.Namespace), d.concurrencyMax(), d.handler(), d.own}
			runs.insert(&batch, due, now)
			runs.skip(&batch, r.Skips, now)
			countSkips(tx, r.Skips)
		}
		batch.Queue(finishSettled, j.Partition, j.ID, now, left)
	}
	return len(ended), tx.SendBatch(ctx, &batch).Close()
}

// settle plans a job by itself, from where its cursor was until now.
func settle(j *storedJob, next, now time.Time) (*definition, job.PlanResult, error) {
	d, err := derive(j.Definition, j.ID)
	if err != nil {
		return nil, job.PlanResult{}, err
	}
	r, err := planAll(job.PlanInput{Schedule: d.own, Missed: d.Missed, NextDue: later(j.planFrom, next), Now: now, Until: now})
	return d, r, err
}
