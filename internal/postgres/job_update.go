package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/keep"
)

// UpdateJob gives a job a new definition. A definition that is equal to the old one changes nothing: no version and no
// audit entry is written, and runs are left alone. White space in JSON does not count.
//
// A new definition takes effect at UpdatedAt: later occurrences follow it, and earlier ones that have not started stay
// due. Runs that have not started are delivered as the new definition says.
func (a *API) UpdateJob(ctx context.Context, in job.UpdateParams) (job.Job, error) {
	out, err := a.updateJobs(ctx, "update "+job.FormatJobID(in.ID), []job.UpdateParams{in})
	if err != nil {
		return job.Job{}, nameTaken(err, in.Definition.Name)
	}
	return out[0].Job, nil
}

// updateBatch is how many jobs one transaction updates. It locks them and their runs, which cannot start meanwhile.
const updateBatch = 100

// updateMany gives many jobs of one namespace new definitions, as UpdateJob does. If a transaction fails, each of its
// jobs gets one of its own, which shows which of them cannot be changed.
func (a *API) updateMany(ctx context.Context, in []job.UpdateParams) []job.BulkResult {
	out := make([]job.BulkResult, 0, len(in))
	for part := range slices.Chunk(in, updateBatch) {
		changes, err := a.updateJobs(ctx, "update jobs", part)
		switch {
		case err == nil:
			for _, c := range changes {
				out = append(out, job.BulkResult{Job: c.Job, Exists: c.Job.ID, Same: !c.Changed})
			}
		case len(part) == 1:
			out = append(out, job.BulkResult{Exists: part[0].ID, Err: nameTaken(err, part[0].Definition.Name)})
		default:
			for i := range part {
				out = append(out, a.updateMany(ctx, part[i:i+1])...)
			}
		}
	}
	return out
}

// updateJobs gives jobs of one namespace new definitions, all or none.
func (a *API) updateJobs(ctx context.Context, what string, in []job.UpdateParams) (out []job.Change, err error) {
	wanted := make([]*definition, len(in))
	for i := range in {
		if wanted[i], err = define(in[i].Definition, in[i].ID); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	err = a.retrying(ctx, in[0].Namespace, what, func(tx pgx.Tx) (err error) {
		out, err = a.update(ctx, tx, in, wanted)
		return err
	})
	return out, err
}

func (a *API) update(ctx context.Context, tx pgx.Tx, in []job.UpdateParams, wanted []*definition) ([]job.Change, error) {
	namespace := in[0].Namespace
	s := &changes{tx: tx, log: a.log, adds: additions{}}
	orders, to, names := make([]job.ChangeParams, len(in)), make([]cursorAt, len(in)), make([]string, len(in))
	for i, p := range in {
		names[i] = wanted[i].Queue
		orders[i] = job.ChangeParams{
			Namespace: namespace, ID: p.ID, IfTag: p.IfTag, Actor: p.Actor,
		}
		to[i] = cursorAt{job.PartitionOf(p.ID), [32]byte(wanted[i].key)}
	}
	queues, created, err := findQueues(ctx, tx, namespace, names, nil)
	if err != nil {
		return nil, err
	}
	if created > 0 {
		s.adds[access.CapQueues] = created
	}
	jobs, err := s.lock(ctx, orders, lockAllRuns, to...)
	if err != nil {
		return nil, err
	}
	out := make([]job.Change, len(jobs))
	var batch pgx.Batch
	var left struct {
		partitions []int16
		cursors    []int64
	}
	for _, i := range inCursorOrder(to) {
		c, d := jobs[i], wanted[i]
		u := update{
			change: c, new: d, queue: queues[d.Queue], actor: in[i].Actor, rollback: in[i].Rollback, step: a.step,
		}
		// A user must be able to replace a definition that cannot be read.
		if u.old, err = derive(c.job.Definition, c.job.ID); err != nil {
			u.old = nil
		}
		v, since := in[i].IfVersion, in[i].IfSince
		stale := v != 0 && v != c.job.Version
		if u.old != nil && d.text.whole == u.old.text.whole && (in[i].Repeats || !stale) {
			out[i] = job.Change{Job: c.job.Job, Now: c.now}
			continue
		}
		if stale || !since.IsZero() && c.job.UpdatedAt.After(since) {
			return nil, c.stale()
		}
		if err := u.decide(ctx, a, to[i]); err != nil {
			return nil, err
		}
		out[i] = job.Change{Now: c.now, Changed: true}
		u.write(&batch, &out[i].Job)
		if u.to.id != c.job.cursor {
			left.partitions, left.cursors = append(left.partitions, c.job.Partition), append(left.cursors, c.job.cursor)
		}
	}
	if len(left.cursors) > 0 { // after all jobs, because one may move to the cursor that another one leaves
		batch.Queue(keep.DropCursors, left.partitions, left.cursors)
	}
	if len(s.adds) > 0 {
		s.adds.read(&batch, namespace, &s.quotas)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, err
	}
	return out, s.end(ctx, namespace)
}

// inCursorOrder returns the indexes of jobs in the order of the cursors that they want.
func inCursorOrder(to []cursorAt) []int {
	order := make([]int, len(to))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return to[a].compare(to[b]) })
	return order
}

// decide determines what the job becomes.
func (u *update) decide(ctx context.Context, a *API, to cursorAt) (err error) {
	u.keep()
	if u.old != nil && u.new.sameTimes(u.old) {
		return nil
	}
	target, ok := u.cursors[to]
	if !ok {
		if target, err = u.createCursor(ctx, a, to); err != nil {
			return err
		}
		u.cursors[to] = target
	}
	return u.move(ctx, target.of(u.job.ID))
}

// update is a change of the definition, and what the job becomes by it.
type update struct {
	*change
	old, new *definition // old: nil if it cannot be read
	queue    int32
	actor    string
	rollback int32          // the version whose definition is restored; 0: none
	step     *operationStep // of the operation that changes it; nil: none does

	to       cursor
	state    job.State
	planFrom time.Time
	endAt    *time.Time
	due      []job.DueTime
	skips    []job.Skip
}

// keep leaves unchanged what determines when runs are due.
func (u *update) keep() {
	u.to, u.state, u.planFrom, u.endAt = u.cursor, u.job.State, u.job.planFrom, u.job.endAt
}

// deleteAhead removes the runs that were to come by the old definition. Runs that are due stay.
const deleteAhead = `
DELETE FROM run
WHERE partition = $1 AND job_id = $2 AND seq = 0 AND state = 0 /* pending */ AND attempt = 0
  AND origin IN (0, 3) /* schedule, missed */ AND due_at > $3`

// move takes the job from its cursor to another one, or to another point of the same one. It accounts for what was due
// by the old definition until now, and writes the runs that the new cursor has already passed.
func (u *update) move(ctx context.Context, to cursor) error {
	if _, err := u.tx.Exec(ctx, deleteAhead, u.job.Partition, u.job.ID, u.now); err != nil {
		return err
	}
	if err := u.accountForOld(ctx); err != nil {
		return err
	}
	u.to, u.planFrom, u.endAt = to, u.new.planFrom(u.now), u.new.endAt
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
	u.due = append(append(u.due, past...), ahead...)
	u.state, u.endAt = to.left(u.new.endAt, u.due, u.now)
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
    timeout_ms = $10, plan_from = $11, end_at = $12,
    finished_at = CASE WHEN $6::smallint = 3 /* finished */ THEN coalesce(finished_at, $13) END, updated_at = $13,
    name = $14, target_kind = $15, target_config = $16, payload = $17, schedule = $18, policy = $19, labels = $20,
    keep_finished_for = $21, concurrency_key = $22, concurrency_max = $23, handler = $24, description = $25,
    owner = $26, updated_by = $27, deadline = $28
WHERE partition = $1 AND id = $2`

// updatePending makes pending runs follow the new definition, so that claim does not apply the overlap policy of the
// old one. A run that workers pulled and that nodes now deliver needs the sweep.
const updatePending = `
UPDATE run
SET version = $3, priority = $4, admit = $5, queue_id = $6, concurrency_key = $7, concurrency_max = $8,
    handler = $9::text, needs_sweep = $9::text IS NULL AND (needs_sweep OR handler IS NOT NULL)
WHERE partition = $1 AND job_id = $2 AND state = 0 /* pending */`

const insertVersion = `
INSERT INTO job_version (partition, job_id, version, actor, definition, created_at, namespace_id, timeout_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

const insertOperationVersion = `
INSERT INTO operation_version (operation_id, job_id, version, namespace_id) VALUES ($1, $2, $3, $4)`

// write adds the statements of the change to a batch.
func (u *update) write(batch *pgx.Batch, out *job.Job) {
	d, j := u.new, u.job.Job
	j.Definition, j.State, j.UpdatedAt, j.UpdatedBy = d.Definition, u.state, u.now, u.actor
	j.Version++
	batch.Queue(
		updateJobRow, j.Partition, j.ID, u.to.id, u.queue, j.Version, j.State, d.Priority, int16(d.AdmitRule()),
		d.jitter.Milliseconds(), d.timeoutMS(), u.planFrom, u.endAt, u.now, d.Name,
		d.Target.Kind, d.text.config, d.payload, d.text.schedule, d.text.policy, d.text.labels, d.keep(),
		d.concurrencyKey(j.Namespace), d.concurrencyMax(), d.handler(), d.Description, d.Owner, u.actor,
		d.deadline(),
	)
	batch.Queue(
		insertVersion, j.Partition, j.ID, j.Version, u.actor, d.text.whole, u.now, j.Namespace, d.timeoutMS(),
	)
	if u.step != nil {
		batch.Queue(insertOperationVersion, u.step.operation, j.ID, j.Version, j.Namespace)
	}
	batch.Queue(
		updatePending, j.Partition, j.ID, j.Version, d.Priority, int16(d.AdmitRule()), u.queue,
		d.concurrencyKey(j.Namespace), d.concurrencyMax(), d.handler(),
	)
	runs := d.runsOf(&j, u.queue)
	runs.insert(u.tx, batch, u.due, u.now)
	runs.skip(batch, u.skips, u.now)
	countSkips(u.tx, u.queue, u.skips)
	*out = j
	u.nextDue(batch, job.NextDueInput{
		State: u.state, Cursor: u.to.next, PlanFrom: u.planFrom, Schedule: d.own,
	}, &out.NextDue)
	action := "job.update"
	if u.rollback != 0 {
		action = "job.rollback"
	}
	u.audit(action, struct {
		Name    string `json:"name"`
		Version int32  `json:"version"`
		To      int32  `json:"to,omitempty"` // of a rollback
		used
	}{j.Name, j.Version, u.rollback, u.log.used(d.Target)})
}
