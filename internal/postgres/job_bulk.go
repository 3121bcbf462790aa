package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// CreateJobs saves many jobs of different names in one transaction, each as CreateJob would. Jobs that are invalid or whose name is taken
// are left out, and their result has an error. With Replace, jobs whose name is taken are replaced after that, in
// transactions of their own. The response to an idempotent request is then stored last: if that does not happen, a
// repetition replaces only jobs that have not been changed since the first request.
func (a *API) CreateJobs(ctx context.Context, o job.BulkParams) ([]job.BulkResult, error) {
	if len(o.Jobs) > job.MaxBulk {
		return nil, fmt.Errorf("create jobs: %d at once; at most %d are taken", len(o.Jobs), job.MaxBulk)
	}
	made, jobs := make([]job.BulkResult, len(o.Jobs)), make([]*newJob, len(o.Jobs))
	for i, n := range o.Jobs {
		jobs[i], made[i].Err = newJobOf(n.ID, n.Definition)
	}
	work := func(tx pgx.Tx) error { return a.createJobs(ctx, tx, &o, jobs, made) }
	err := a.retrying(ctx, o.Namespace, "create jobs", work)
	for try := 1; store.Code(err) == "23505" && try < maxTries; try++ { // another transaction took a name after takenNames
		err = a.retrying(ctx, o.Namespace, "create jobs", work)
	}
	if err == nil && o.Replace {
		a.replaceExisting(ctx, &o, made)
		err = a.retrying(ctx, o.Namespace, "replace jobs", func(tx pgx.Tx) error {
			return storeResponse(ctx, tx, o.Namespace, o.Idempotent, made)
		})
	}
	return made, err
}

func (a *API) replaceExisting(ctx context.Context, o *job.BulkParams, made []job.BulkResult) {
	var updates []job.UpdateParams
	var of []int
	var since time.Time
	if o.Idempotent != nil {
		since = o.Idempotent.Since
	}
	for i := range made {
		if made[i].Exists != uuid.Nil {
			of = append(of, i)
			updates = append(updates, job.UpdateParams{
				Namespace: o.Namespace, ID: made[i].Exists, IfVersion: o.Jobs[i].IfVersion, Repeats: true,
				IfSince: since, Definition: o.Jobs[i].Definition, Actor: o.Actor,
			})
		}
	}
	for i, r := range a.updateMany(ctx, updates) {
		made[of[i]] = r
	}
}

func (a *API) createJobs(
	ctx context.Context, tx pgx.Tx, o *job.BulkParams, jobs []*newJob, made []job.BulkResult,
) error {
	if err := replayOrClaim(ctx, tx, o.Namespace, o.Idempotent); err != nil {
		return err
	}
	once := o.Idempotent
	if o.Replace {
		once = nil // CreateJobs stores the response
	}
	c := creation{store: a, tx: tx, namespace: o.Namespace, actor: o.Actor}
	taken, err := takenNames(ctx, tx, o.Namespace, jobs)
	if err != nil {
		return err
	}
	var created []int
	for i, n := range jobs {
		switch {
		case n == nil:
		case taken[n.definition.Name] != uuid.Nil:
			made[i] = job.BulkResult{
				Exists: taken[n.definition.Name],
				Err:    fmt.Errorf("%w: a job named %q already exists", job.ErrConflict, n.definition.Name),
			}
		case o.Jobs[i].IfVersion != 0:
			made[i] = job.BulkResult{Err: fmt.Errorf(
				"%w: the job %q no longer exists; version %d of it was read", job.ErrConflict, n.definition.Name,
				o.Jobs[i].IfVersion,
			)}
		default:
			c.jobs, created = append(c.jobs, n), append(created, i)
		}
	}
	if len(c.jobs) == 0 {
		return storeResponse(ctx, tx, o.Namespace, once, made)
	}
	if err := c.create(ctx); err != nil {
		return err
	}
	for _, i := range created {
		made[i] = job.BulkResult{Job: jobs[i].job}
	}
	if err := storeResponse(ctx, tx, o.Namespace, once, made); err != nil {
		return err
	}
	targets := make([]job.Target, len(c.jobs))
	for i, n := range c.jobs {
		targets[i] = n.definition.Target
	}
	first, last := job.FormatJobID(c.jobs[0].job.ID), job.FormatJobID(c.jobs[len(c.jobs)-1].job.ID)
	err = a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "job.create_bulk", first}, struct {
		Count int    `json:"count"`
		First string `json:"first"`
		Last  string `json:"last"`
		used
	}{len(c.jobs), first, last, a.log.used(targets...)})
	if err != nil {
		return err
	}
	return c.checkQuotas(ctx)
}

// IS NOT DISTINCT FROM: see whereJob.
const selectTaken = `
SELECT j.name, j.id FROM unnest($2::text[]) n, LATERAL (
    SELECT name, id FROM job WHERE namespace_id IS NOT DISTINCT FROM $1 AND name = n LIMIT 1) j`

func takenNames(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, jobs []*newJob) (map[string]uuid.UUID, error) {
	var names []string
	for _, n := range jobs {
		if n != nil {
			names = append(names, n.definition.Name)
		}
	}
	rows, err := tx.Query(ctx, selectTaken, namespace, names)
	if err != nil {
		return nil, err
	}
	taken := map[string]uuid.UUID{}
	var name string
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&name, &id}, func() error { taken[name] = id; return nil })
	return taken, err
}

// creation creates one or many jobs in a transaction. It takes its locks in the order of all changes: queues, cursors
// by partition and id, new cursors. It reads the clock after that.
type creation struct {
	store     *API
	tx        pgx.Tx
	namespace uuid.UUID
	actor     string
	jobs      []*newJob

	queues map[string]int32
	now    time.Time
	adds   additions
	quotas []access.QuotaError // those that the namespace has
}

// checkQuotas is called last: see [additions.check]. Whoever has no quota, and creates no queue, pays nothing under the
// lock of the audit log.
func (c *creation) checkQuotas(ctx context.Context) error {
	if len(c.quotas) == 0 && c.adds[access.CapQueues] == 0 {
		return nil
	}
	return c.adds.check(ctx, c.tx, c.namespace)
}

func (c *creation) create(ctx context.Context) (err error) {
	c.adds = additions{access.QuotaJobs: int64(len(c.jobs))}
	queues := make([]string, len(c.jobs))
	for i, n := range c.jobs {
		queues[i] = n.definition.Queue
	}
	var created int64
	if c.queues, created, err = findQueues(ctx, c.tx, c.namespace, queues, c.adds); err != nil {
		return err
	}
	if err := c.joinCursors(ctx); err != nil {
		return err
	}
	if created > 0 { // they are counted from now on
		c.adds[access.CapQueues] = created
	}
	var rows jobRows
	var runs runRows
	var skipped skipRows
	for _, n := range c.jobs {
		if err := c.decide(n, &rows, &runs, &skipped); err != nil {
			return err
		}
	}
	var batch pgx.Batch
	rows.insert(&batch, c)
	runs.insert(c.tx, &batch)
	skipped.insert(&batch, c.now)
	return c.tx.SendBatch(ctx, &batch).Close()
}

// decide determines what is written for a job.
func (c *creation) decide(n *newJob, rows *jobRows, runs *runRows, skipped *skipRows) error {
	d, j := n.definition, &n.job
	j.Namespace, j.Version, j.CreatedAt, j.UpdatedAt, j.Definition = c.namespace, 1, c.now, c.now, d.Definition
	j.CreatedBy, j.UpdatedBy = c.actor, c.actor
	planFrom := d.planFrom(c.now)
	due, skips := job.Created(job.CreatedInput{Schedule: d.own, Missed: d.Missed, Now: c.now})
	ahead, err := plannedPast(d, n.cursor, planFrom, c.now)
	if err != nil {
		return err
	}
	due = append(due, ahead...)
	state, endAt := n.cursor.left(d.endAt, due, c.now)
	j.State = state
	j.NextDue = n.cursor.nextDue(j.State, due, planFrom, d)
	queue := c.queues[d.Queue]
	rows.add(n, queue, planFrom, endAt)
	of := d.runsOf(j, queue)
	runs.add(of, due, c.now)
	skipped.add(of, skips)
	countSkips(c.tx, queue, skips)
	return nil
}

// jobRows are new rows of job and job_version, as the arrays that the statements take.
type jobRows struct {
	partition                                       []int16
	id                                              pgtype.FlatArray[pgtype.UUID]
	cursor                                          []int64
	queue                                           []int32
	state, priority, admit                          []int16
	key                                             []*int64
	keyMax                                          []*int32
	jitter, timeout                                 []int64
	planFrom                                        []time.Time
	endAt                                           []*time.Time
	name, kind, config, spec, policy, labels, whole []string
	payload, handler                                []*string
	keep, deadline                                  []*time.Duration
	description, owner                              []string
}

func (r *jobRows) add(n *newJob, queue int32, planFrom time.Time, endAt *time.Time) {
	j, d := &n.job, n.definition
	r.partition, r.id = append(r.partition, j.Partition), append(r.id, pgtype.UUID{Bytes: j.ID, Valid: true})
	r.cursor, r.queue = append(r.cursor, n.cursor.id), append(r.queue, queue)
	r.state = append(r.state, int16(j.State))
	r.priority = append(r.priority, d.Priority)
	r.admit = append(r.admit, int16(d.AdmitRule()))
	r.jitter, r.timeout = append(r.jitter, d.jitter.Milliseconds()), append(r.timeout, d.timeoutMS())
	r.planFrom, r.endAt = append(r.planFrom, planFrom), append(r.endAt, endAt)
	r.name, r.kind, r.config = append(r.name, d.Name), append(r.kind, d.Target.Kind), append(r.config, d.text.config)
	r.spec = append(r.spec, d.text.schedule)
	r.policy = append(r.policy, d.text.policy)
	r.labels = append(r.labels, d.text.labels)
	r.whole = append(r.whole, d.text.whole)
	r.payload, r.keep = append(r.payload, d.payload), append(r.keep, d.keep())
	r.deadline = append(r.deadline, d.deadline())
	r.handler = append(r.handler, d.handler())
	r.description, r.owner = append(r.description, d.Description), append(r.owner, d.Owner)
	r.key, r.keyMax = append(r.key, d.concurrencyKey(j.Namespace)), append(r.keyMax, d.concurrencyMax())
}

const insertJobRows = `
INSERT INTO job (namespace_id, version, created_at, updated_at, created_by, updated_by, finished_at, partition, id,
                 cursor_id, queue_id, state, priority, admit, jitter_ms, timeout_ms, plan_from, end_at, name,
                 target_kind, target_config, payload, schedule, policy, labels, keep_finished_for, concurrency_key,
                 concurrency_max, handler, description, owner, deadline)
SELECT $1, 1, $2, $2, $25, $25, CASE WHEN r.state = 3 /* finished */ THEN $2::timestamptz END, r.*
FROM (SELECT unnest($3::smallint[]), unnest($4::uuid[]), unnest($5::bigint[]), unnest($6::integer[]),
             unnest($7::smallint[]) AS state, unnest($8::smallint[]), unnest($9::smallint[]), unnest($10::integer[]),
             unnest($11::integer[]), unnest($12::timestamptz[]), unnest($13::timestamptz[]), unnest($14::text[]),
             unnest($15::text[]), unnest($16::text[]), unnest($17::text[]), unnest($18::text[]), unnest($19::text[]),
             unnest($20::text[])::jsonb, unnest($21::interval[]), unnest($22::bigint[]), unnest($23::integer[]),
             unnest($24::text[]), unnest($26::text[]), unnest($27::text[]), unnest($28::interval[])) r`

const insertVersions = `
INSERT INTO job_version (namespace_id, version, actor, created_at, partition, job_id, definition, timeout_ms)
SELECT $1, 1, $2, $3, unnest($4::smallint[]), unnest($5::uuid[]), unnest($6::text[]), unnest($7::integer[])`

func (r *jobRows) insert(batch *pgx.Batch, c *creation) {
	batch.Queue(
		insertJobRows, c.namespace, c.now, r.partition, r.id, r.cursor, r.queue, r.state, r.priority, r.admit,
		r.jitter, r.timeout, r.planFrom, r.endAt, r.name, r.kind, r.config, r.payload, r.spec,
		r.policy, r.labels, r.keep, r.key, r.keyMax, r.handler, c.actor, r.description, r.owner,
		r.deadline,
	)
	batch.Queue(insertVersions, c.namespace, c.actor, c.now, r.partition, r.id, r.whole, r.timeout)
}
