package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// selectKnown reads what the ledger has of a job in a range of due times: the highest sequence number of each, and
// whether a run of it ran or is going to run.
const selectKnown = `
SELECT due_at, max(seq), bool_or(ran)
FROM (SELECT r.due_at, r.seq, true AS ran FROM run r
      WHERE r.partition = $1 AND r.job_id = $2 AND r.due_at >= $3 AND r.due_at <= $4
      UNION ALL
      SELECT h.due_at, h.seq, h.ended <> 4 /* skipped */ FROM run_history h
      WHERE h.job_id = $2 AND h.due_at >= $3 AND h.due_at <= $4) k
GROUP BY due_at`

// The planner of the owner does not know these runs, so they need the sweep.
const insertBackfilled = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 concurrency_key, concurrency_max, handler, needs_sweep)
SELECT j.partition, b.seq, j.version, j.id, b.due_at, b.run_at, 0 /* pending */, 0, j.priority, 2 /* backfill */,
       j.admit, j.queue_id, j.concurrency_key, j.concurrency_max, j.handler, j.handler IS NULL
FROM job j, (SELECT unnest($3::smallint[]) AS seq, unnest($4::timestamptz[]) AS due_at,
                    unnest($5::timestamptz[]) AS run_at) b
WHERE j.partition = $1 AND j.id = $2`

// BackfillJob creates runs for past occurrences of a job's schedule, also for a paused or finished job. The runs have
// new sequence numbers and start one after the other, at the given pace, from now on.
func (a *API) BackfillJob(ctx context.Context, o job.BackfillParams) (out job.BackfillResult, err error) {
	what := "backfill " + job.FormatJobID(o.ID)
	if o.DryRun {
		err = a.retrying(ctx, o.Namespace, what, func(tx pgx.Tx) error {
			b := backfill{tx: tx, order: o, seq: map[time.Time]int16{}}
			if err := b.lock(ctx); err != nil {
				return err
			}
			_, out, err = b.choose(ctx)
			return err
		})
		return out, err
	}
	err = a.retrying(ctx, o.Namespace, what, func(tx pgx.Tx) error {
		if err := replayOrClaim(ctx, tx, o.Namespace, o.Idempotent); err != nil {
			return err
		}
		b := backfill{tx: tx, order: o, seq: map[time.Time]int16{}}
		if err := b.lock(ctx); err != nil {
			return err
		}
		if out, err = b.create(ctx); err != nil {
			return err
		}
		if err := storeResponse(ctx, tx, o.Namespace, o.Idempotent, out); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "job.backfill", job.FormatJobID(o.ID)}, struct {
			Name string    `json:"name"`
			From time.Time `json:"from"`
			To   time.Time `json:"to"`
			Runs int       `json:"runs"`
		}{b.job.Name, o.From, o.To, out.Runs})
	})
	return out, err
}

type backfill struct {
	tx    pgx.Tx
	order job.BackfillParams
	job   jobRow
	now   time.Time
	seq   map[time.Time]int16 // the highest sequence number in the ledger, by due time
}

// lock locks the job against deletes, triggers and other backfills.
func (b *backfill) lock(ctx context.Context) error {
	o := &b.order
	rows, err := b.tx.Query(ctx, selectJob+whereJob+` FOR UPDATE OF j`, job.PartitionOf(o.ID), o.ID, o.Namespace)
	if err != nil {
		return err
	}
	if b.job, err = collectJob(rows); err != nil {
		return err
	}
	if o.IfVersion != 0 && o.IfVersion != b.job.Version {
		return fmt.Errorf("%w: the job has version %d, not %d", job.ErrConflict, b.job.Version, o.IfVersion)
	}
	if err := b.tx.QueryRow(ctx, readClock).Scan(&b.now); err != nil {
		return err
	}
	b.now = b.now.UTC()
	return o.Validate(b.now)
}

// create creates as many runs as the job may get.
func (b *backfill) create(ctx context.Context) (job.BackfillResult, error) {
	most, err := runsToAdd(ctx, b.tx, job.LeaveToOthers, job.Key{Partition: b.job.Partition, Job: b.job.ID})
	if err != nil {
		return job.BackfillResult{}, err
	}
	b.order.Max = min(b.order.Max, most)
	due, out, err := b.choose(ctx)
	if err != nil || len(due) == 0 {
		return out, err
	}
	seq, runAt := make([]int16, len(due)), make([]time.Time, len(due))
	for i, at := range due {
		seq[i] = b.seq[at] + 1
		runAt[i] = b.now.Add(time.Duration(i) * time.Duration(b.order.Pace))
	}
	if _, err = b.tx.Exec(ctx, insertBackfilled, b.job.Partition, b.job.ID, seq, due, runAt); err == nil {
		store.WakeOf(b.tx).Add(b.job.Partition, b.job.queueID, b.job.Target.Handler() != "")
	}
	return out, err
}

// choose returns the due times that get a run.
func (b *backfill) choose(ctx context.Context) ([]time.Time, job.BackfillResult, error) {
	own, err := schedule.New(b.job.Schedule, b.job.ID.String())
	if err != nil {
		return nil, job.BackfillResult{}, err
	}
	return job.Backfill(own, &b.order, func(from, to time.Time) (map[time.Time]bool, error) {
		return b.known(ctx, from, to)
	})
}

func (b *backfill) known(ctx context.Context, from, to time.Time) (map[time.Time]bool, error) {
	rows, err := b.tx.Query(ctx, selectKnown, b.job.Partition, b.job.ID, from, to)
	if err != nil {
		return nil, err
	}
	out := map[time.Time]bool{}
	var at time.Time
	var seq int16
	var ran bool
	_, err = pgx.ForEachRow(rows, []any{&at, &seq, &ran}, func() error {
		b.seq[at.UTC()] = seq
		out[at.UTC()] = ran
		return nil
	})
	return out, err
}
