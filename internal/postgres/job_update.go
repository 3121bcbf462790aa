package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// UpdateJob gives a job a new definition. A definition that is equal to the old one changes nothing: no version and no
// audit entry is written, and runs are left alone. White space in JSON does not count.
//
// A new definition takes effect at UpdatedAt: later occurrences follow it, and earlier ones that have not started stay
// due. Runs that have not started are delivered as the new definition says.
func (a *API) UpdateJob(ctx context.Context, in job.UpdateParams) (job.Job, error) {
	what := "update " + job.FormatJobID(in.ID)
	d, err := define(in.Definition, in.ID)
	if err != nil {
		return job.Job{}, fmt.Errorf("%s: %w", what, err)
	}
	var out job.Job
	err = a.retrying(ctx, in.Namespace, what, func(tx pgx.Tx) (err error) {
		out, err = a.update(ctx, tx, in, d)
		return err
	})
	if err != nil {
		return job.Job{}, nameTaken(err, d.Name)
	}
	return out, nil
}

func (a *API) update(ctx context.Context, tx pgx.Tx, in job.UpdateParams, d *definition) (job.Job, error) {
	queue, created, err := findQueue(ctx, tx, in.Namespace, d.Queue)
	if err != nil {
		return job.Job{}, err
	}
	key := cursorKey{job.PartitionOf(in.ID), in.Namespace, d.key}
	to, err := findCursor(ctx, tx, key)
	if err != nil {
		return job.Job{}, err
	}
	c, cursors, err := a.lockJob(
		ctx, tx,
		job.ChangeParams{Namespace: in.Namespace, ID: in.ID, IfVersion: in.IfVersion, IfTag: in.IfTag, Actor: in.Actor},
		lockAllRuns, to,
	)
	if err != nil {
		return job.Job{}, err
	}
	old, err := derive(c.job.Definition, in.ID)
	if err != nil {
		old = nil // a user must be able to replace a definition that cannot be read
	}
	if old != nil && d.text.whole == old.text.whole {
		return c.job.Job, nil
	}
	u := update{change: c, old: old, new: d, queue: queue, actor: in.Actor, rollback: in.Rollback, adds: additions{}}
	if created {
		u.adds[access.QuotaQueues] = 1
	}
	if more := d.stored() - old.stored(); more > 0 {
		u.adds[access.QuotaStorage] = more
	}
	u.keep()
	if old == nil || !d.sameTimes(old) {
		target, ok := cursors[to]
		if !ok {
			if target, err = a.createCursor(ctx, tx, key, d, c.now); err != nil {
				return job.Job{}, err
			}
		}
		if err := u.move(ctx, target.of(in.ID)); err != nil {
			return job.Job{}, err
		}
	}
	return u.write(ctx)
}

// update is a change of the definition, and what the job becomes by it.
type update struct {
	*change
	old, new *definition // old: nil if it cannot be read
	queue    int32
	actor    string
	rollback int32 // the version whose definition is restored; 0: none
	adds     additions

	to       cursor
	state    job.State
	runsLeft *int32
	planFrom time.Time
	due      []job.DueTime
	skips    []job.Skip
}

// keep leaves unchanged what determines when runs are due.
func (u *update) keep() {
	u.to, u.state, u.runsLeft, u.planFrom = u.cursor, u.job.State, u.job.runsLeft, u.job.planFrom
}

// deleteAhead removes the runs that were to come by the old definition. Runs that are due stay.
const deleteAhead = `
DELETE FROM run
WHERE partition = $1 AND job_id = $2 AND seq = 0 AND state = 0 /* pending */ AND attempt = 0
  AND origin IN (0, 3) /* schedule, missed */ AND due_at > $3`

// move takes the job from its cursor to another one, or to another point of the same one. It accounts for what was due
// by the old definition until now, and writes the runs that the new cursor has already passed.
func (u *update) move(ctx context.Context, to cursor) error {
	gone, err := u.tx.Exec(ctx, deleteAhead, u.job.Partition, u.job.ID, u.now)
	if err != nil {
		return err
	}
	skipped, err := u.accountForOld(ctx)
	if err != nil {
		return err
	}
	used := int32(0)
	if u.old != nil && u.job.runsLeft != nil {
		free := *u.job.runsLeft + skipped
		var left *int32
		u.due, left = limited(u.due, &free)
		used = u.old.MaxRuns - *left - int32(gone.RowsAffected()) // runs that had not started do not count
	}
	u.to, u.planFrom, u.runsLeft = to, u.new.planFrom(u.now), u.new.runsLeft(used)
	past, err := u.withoutEnded(ctx, u.past())
	if err != nil {
		return err
	}
	if u.state == job.Paused {
		for _, d := range past {
			u.skips = append(u.skips, job.Skip{From: d.DueAt, To: d.DueAt, Count: 1, Reason: job.ReasonPaused})
		}
		return nil
	}
	ahead, err := plannedPast(u.new, to, u.planFrom, u.now)
	if err != nil {
		return err
	}
	if ahead, err = u.withoutEnded(ctx, ahead); err != nil {
		return err
	}
	ahead, u.runsLeft = limited(append(past, ahead...), u.runsLeft)
	u.due = append(u.due, ahead...)
	u.state = to.left(u.new.endAt, u.runsLeft)
	return nil
}

// past returns the occurrence of a one-off whose time has passed. If the job was the same one-off before, that run has
// already happened.
func (u *update) past() []job.DueTime {
	if u.old != nil && u.old.shared == u.new.shared {
		return nil
	}
	due, skips := job.Created(job.CreatedInput{Schedule: u.new.own, Missed: u.new.Missed, Now: u.now})
	u.skips = append(u.skips, skips...)
	return due
}

const updateJobRow = `
UPDATE job
SET cursor_id = $3, queue_id = $4, version = $5, state = $6, priority = $7, admit = $8, jitter_ms = $9,
    timeout_ms = $10, max_runs = $11, runs_left = $12, plan_from = $13, end_at = $14,
    finished_at = CASE WHEN $6::smallint = 3 /* finished */ THEN coalesce(finished_at, $15) END, updated_at = $15,
    name = $16, target_kind = $17, target_config = $18, payload = $19, schedule = $20, policy = $21, labels = $22,
    keep_finished_for = $23, concurrency_key = $24, concurrency_max = $25, handler = $26, description = $27,
    owner = $28, updated_by = $29, keep_history = $30, keep_failures = $31
WHERE partition = $1 AND id = $2`

// updatePending makes pending runs follow the new definition, so that claim does not apply the overlap policy of the
// old one. A run that workers pulled and that nodes now deliver needs the sweep.
const updatePending = `
UPDATE run
SET version = $3, priority = $4, admit = $5, queue_id = $6, concurrency_key = $7, concurrency_max = $8,
    handler = $9::text, needs_sweep = $9::text IS NULL AND (needs_sweep OR handler IS NOT NULL)
WHERE partition = $1 AND job_id = $2 AND state = 0 /* pending */`

const insertVersion = `
INSERT INTO job_version (partition, job_id, version, actor, definition, created_at, namespace_id)
VALUES ($1, $2, $3, $4, $5, $6, $7)`

func (u *update) write(ctx context.Context) (job.Job, error) {
	d, j := u.new, u.job.Job
	j.Definition, j.State, j.UpdatedAt, j.UpdatedBy = d.Definition, u.state, u.now, u.actor
	j.Version++
	var batch pgx.Batch
	batch.Queue(
		updateJobRow, j.Partition, j.ID, u.to.id, u.queue, j.Version, j.State, d.Priority, int16(d.AdmitRule()),
		d.jitter.Milliseconds(), d.timeoutMS(), d.MaxRuns, u.runsLeft, u.planFrom, d.endAt, u.now, d.Name,
		d.Target.Kind, d.text.config, d.payload, d.text.schedule, d.text.policy, d.text.labels, d.keep(),
		d.concurrencyKey(j.Namespace), d.concurrencyMax(), d.handler(), d.Description, d.Owner, u.actor,
		d.keepHistory(), d.keepFailures(),
	)
	if d.keepsRuns() {
		batch.Queue(noteRule, j.Namespace)
	}
	batch.Queue(insertVersion, j.Partition, j.ID, j.Version, u.actor, d.text.whole, u.now, j.Namespace)
	batch.Queue(
		updatePending, j.Partition, j.ID, j.Version, d.Priority, int16(d.AdmitRule()), u.queue,
		d.concurrencyKey(j.Namespace), d.concurrencyMax(), d.handler(),
	)
	runs := d.runsOf(&j, u.queue)
	runs.insert(u.tx, &batch, u.due, u.now)
	runs.skip(&batch, u.skips, u.now)
	countSkips(u.tx, u.queue, u.skips)
	if u.to.id != u.job.cursor {
		batch.Queue(dropCursors, []int16{j.Partition}, []int64{u.job.cursor})
	}
	var quotas []access.QuotaError // those that the namespace has
	if len(u.adds) > 0 {
		u.adds.read(&batch, j.Namespace, &quotas)
	}
	if err := u.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return j, err
	}
	var err error
	j.NextDue, err = u.nextDue(
		ctx, job.NextDueInput{State: u.state, Cursor: u.to.next, PlanFrom: u.planFrom, Schedule: d.own},
	)
	if err != nil {
		return j, err
	}
	action := "job.update"
	if u.rollback != 0 {
		action = "job.rollback"
	}
	err = u.audit(ctx, action, struct {
		Name    string `json:"name"`
		Version int32  `json:"version"`
		To      int32  `json:"to,omitempty"` // of a rollback
		used
	}{j.Name, j.Version, u.rollback, u.log.used(d.Target)})
	if err != nil || len(quotas) == 0 {
		return j, err
	}
	return j, u.adds.check(ctx, u.tx, j.Namespace)
}
