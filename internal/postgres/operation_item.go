package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// An operation on jobs changes many of them in one transaction, which locks all of them first, in the order of all
// changes. If one cannot be changed, each has a transaction of its own, as have runs and triggers. The same transaction
// moves the position of the operation past its items, if it is still where this node left it. Each item is therefore
// changed once, whatever nodes do.
const (
	itemBatch    = 100              // items that are read at once
	itemTime     = 10 * time.Second // after which a batch ends
	itemTries    = 3                // failures of a batch before its first item counts as failed
	maxItems     = 1_000            // failed items that are stored
	createdLater = time.Minute      // how far clocks of nodes, which ids are made by, may be apart
)

// reserve keeps other nodes from the operation while this one works on a batch. If this one dies, others continue.
func (o *activeOperation) reserve(ctx context.Context, tx pgx.Tx) error {
	const sql = `UPDATE operation SET next_at = now() + interval '20 seconds' WHERE id = $1 RETURNING next_at`
	return tx.QueryRow(ctx, sql, o.ID).Scan(&o.nextAt)
}

// errStepLost says that the operation has ended, or that another node works on it.
var errStepLost = errors.New("the operation has moved on")

// operationStep is a step of an operation, from one position to another.
type operationStep struct {
	operation uuid.UUID
	from, to  string
	count     string // the column that counts it
	items     int
}

// around makes work a part of the step. A step that is nil is none.
func (s *operationStep) around(ctx context.Context, work func(pgx.Tx) error) func(pgx.Tx) error {
	if s == nil {
		return work
	}
	return func(tx pgx.Tx) error {
		var state job.OperationState
		var at string
		const lock = `SELECT state, resume_after FROM operation WHERE id = $1 FOR UPDATE`
		if err := tx.QueryRow(ctx, lock, s.operation).Scan(&state, &at); err != nil {
			return err
		}
		if state != job.OperationRunning || at != s.from {
			return errStepLost
		}
		if err := work(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE operation SET `+s.count+` = `+s.count+` + $3, resume_after = $2, failures = 0,
			problem = NULL WHERE id = $1`, s.operation, s.to, s.items)
		return err
	}
}

// itemMark is the position of an operation on jobs or runs.
type itemMark struct {
	Jobs job.ListMark `json:"jobs,omitzero"`
	Runs job.RunMark  `json:"runs,omitzero"`
	IDs  int          `json:"ids,omitempty"`
}

// item is a job or a run to change, and the position after it.
type item struct {
	object, name string
	run          *job.Entry // nil: only its id is known
	attempt      *int16     // nil: any
	version      int32      // of an undo: the version to take back
	after        itemMark
}

// itemPage are the next items of an operation, and the position after them; nil: there are no more.
type itemPage struct {
	items []item
	next  *itemMark
}

// workItems changes the next items of an operation.
func (e *Engine) workItems(ctx context.Context, o *activeOperation) error {
	var mark itemMark
	if o.at != "" {
		if err := json.Unmarshal([]byte(o.at), &mark); err != nil {
			return fmt.Errorf("read its position: %w", err)
		}
	}
	page, err := e.api.itemsOf(ctx, o, mark)
	if err != nil {
		return err
	}
	if done, err := e.api.workTogether(ctx, o, page.items); err != nil || done {
		return errors.Join(err, e.endBatch(ctx, o, &page))
	}
	began := clock.Elapsed()
	for i, it := range page.items {
		if clock.Elapsed()-began > itemTime {
			page.items, page.next = page.items[:i], &page.items[i-1].after
			break
		}
		if err := e.api.workItem(ctx, o, &it); err != nil {
			switch {
			case errors.Is(err, errStepLost):
				return nil
			case errors.Is(err, errTooManyRuns):
				return waitForFewerRuns(ctx, e.db, o, reason(err))
			}
			return err
		}
	}
	return e.endBatch(ctx, o, &page)
}

// endBatch stores where the operation is and when it continues, or that it has finished. Its rate counts from when the
// batch was due: what the batch itself took, up to a second, is made up for.
func (e *Engine) endBatch(ctx context.Context, o *activeOperation, page *itemPage) error {
	if page.next == nil {
		_, err := e.db.Exec(ctx, `UPDATE operation SET state = 'finished', ended_at = now(), failures = 0, problem = NULL
			WHERE id = $1 AND state = 'running' AND resume_after = $2`, o.ID, o.at)
		return err
	}
	at, err := toJSON(page.next)
	if err != nil {
		return err
	}
	_, err = e.db.Exec(ctx, `UPDATE operation SET resume_after = $3, failures = 0, problem = NULL,
		next_at = greatest(now() - interval '1 second', $5::timestamptz + interval '1 second' * $4::integer / rate)
		WHERE id = $1 AND state = 'running' AND resume_after = $2`, o.ID, o.at, at, len(page.items), o.dueAt)
	return err
}

// workTogether changes items in one transaction. It reports whether it did: it does not if one of them cannot be
// changed, or if their kind of change has to be made one by one.
func (a *API) workTogether(ctx context.Context, o *activeOperation, items []item) (bool, error) {
	if len(items) < 2 || o.Kind.OfRuns() || o.Kind == job.TriggerJobs || o.Kind == job.UndoJobs || o.failures > 0 {
		return false, nil
	}
	orders := make([]job.ChangeParams, len(items))
	for i, it := range items {
		id, err := job.ParseJobID(it.object)
		if err != nil {
			return false, nil //nolint:nilerr // it is noted as a failed item
		}
		orders[i] = job.ChangeParams{Namespace: o.namespace, ID: id, Actor: o.Actor, Until: o.Change.Until}
	}
	to, err := toJSON(items[len(items)-1].after)
	if err != nil {
		return false, err
	}
	within := *a
	within.step = &operationStep{operation: o.ID, from: o.at, to: to, count: "done", items: len(items)}
	if err := within.changeAll(ctx, o, orders); err != nil {
		return false, nil //nolint:nilerr // one by one, the item that fails is found and noted
	}
	o.at = to
	return true, nil
}

// changeAll changes jobs in one transaction.
func (a *API) changeAll(ctx context.Context, o *activeOperation, orders []job.ChangeParams) error {
	var work func(*change) error
	switch o.Kind {
	case job.PauseJobs:
		work = func(c *change) error { _, err := c.pause(ctx, o.Change.Note); return err }
	case job.ResumeJobs:
		work = func(c *change) error { _, err := c.resume(ctx, 0, time.Time{}); return err }
	case job.DeleteJobs:
		work = func(c *change) error { return c.delete(ctx) }
	default:
		return a.redefineAll(ctx, o, orders)
	}
	return a.changeJobs(ctx, "change jobs", orders, work)
}

// redefineAll gives jobs the definitions that the operation makes of their current ones.
func (a *API) redefineAll(ctx context.Context, o *activeOperation, orders []job.ChangeParams) error {
	ids := make([]uuid.UUID, len(orders))
	for i := range orders {
		ids[i] = orders[i].ID
	}
	jobs, err := a.newListing(job.ListParams{Namespace: o.namespace}).read(ctx, ids)
	if err != nil {
		return err
	}
	params := make([]job.UpdateParams, len(jobs))
	for i := range jobs {
		d, _ := o.Change.Apply(o.Kind, &jobs[i], o.until)
		params[i] = job.UpdateParams{
			Namespace: o.namespace, ID: jobs[i].ID, IfVersion: jobs[i].Version, Definition: d, Actor: o.Actor,
		}
	}
	if len(params) < len(orders) {
		return job.ErrNotFound
	}
	_, err = a.updateJobs(ctx, "change jobs", params)
	return err
}

// workItem changes one item, or notes why it could not be changed.
func (a *API) workItem(ctx context.Context, o *activeOperation, it *item) error {
	to, err := toJSON(it.after)
	if err != nil {
		return err
	}
	within := *a
	within.step = &operationStep{operation: o.ID, from: o.at, to: to, count: "done", items: 1}
	err = within.change(ctx, o, it)
	filtered := o.Set.Jobs != nil || o.Set.Runs != nil
	if filtered && (errors.Is(err, job.ErrNotFound) || errors.Is(err, errRanAgain)) { // it is no longer in the set
		return nil
	}
	if text, ok := o.failure(err); ok {
		within.step.count = "failed"
		err = within.retrying(ctx, o.namespace, "note a failed item", func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertItem, o.ID, o.namespace, it.object, it.name, text, maxItems)
			return err
		})
	}
	if err == nil {
		o.at, o.failures = to, 0
	}
	return err
}

const insertItem = `
INSERT INTO operation_item (operation_id, number, namespace_id, at, object, name, error)
SELECT o.id, o.failed + 1, $2, clock_timestamp(), $3, $4, $5 FROM operation o WHERE o.id = $1 AND o.failed < $6`

// failure returns what to say about an item that could not be changed. ok is false if there was no error, or one that
// may pass. An item that keeps failing must not hold up all others.
func (o *activeOperation) failure(err error) (text string, ok bool) {
	unreadable, isSchedule := errors.AsType[*schedule.Error](err)
	switch {
	case err == nil, errors.Is(err, errStepLost):
		return "", false
	case errors.Is(err, errFull), errors.Is(err, errTooManyRuns) && o.Kind.OfRuns(): // to retry them later is better than to leave them out
		return "", false
	case errors.Is(err, job.ErrNotFound):
		return "not found", true
	case errors.Is(err, job.ErrConflict), len(problem.All(err)) > 0:
		return reason(err), true
	case isSchedule:
		return unreadable.Error(), true
	case o.failures >= itemTries:
		return "a node could not change it; the nodes' log says more", true
	default:
		return "", false
	}
}

// reason returns the text of an error without what the store was doing.
func reason(err error) string {
	var out []string
	for _, p := range problem.All(err) {
		out = append(out, p.Error())
	}
	if out == nil {
		_, detail, _ := strings.Cut(err.Error(), job.ErrConflict.Error())
		out = append(out, strings.TrimPrefix(detail, ": "))
	}
	return strings.Join(out, "; ")
}

// change changes one item.
func (a *API) change(ctx context.Context, o *activeOperation, it *item) error {
	if o.Kind.OfRuns() {
		return a.changeRun(ctx, o, it)
	}
	id, err := job.ParseJobID(it.object)
	if err != nil {
		return job.ErrNotFound
	}
	p := job.ChangeParams{Namespace: o.namespace, ID: id, Actor: o.Actor}
	switch o.Kind {
	case job.PauseJobs:
		p.Until = o.Change.Until
		_, err = a.PauseJob(ctx, p, o.Change.Note)
	case job.ResumeJobs:
		_, err = a.ResumeJob(ctx, p)
	case job.TriggerJobs:
		_, err = a.TriggerJob(ctx, p, nil)
	case job.DeleteJobs:
		_, err = a.DeleteJob(ctx, p)
	case job.UndoJobs:
		err = a.takeBack(ctx, p, it)
	default:
		err = a.redefine(ctx, o, p)
	}
	return err
}

// redefine gives a job the definition that the operation makes of its current one.
func (a *API) redefine(ctx context.Context, o *activeOperation, p job.ChangeParams) error {
	for try := 1; ; try++ {
		j, err := a.Job(ctx, p.Namespace, p.ID)
		if err != nil {
			return err
		}
		d, _ := o.Change.Apply(o.Kind, &j, o.until)
		_, err = a.UpdateJob(ctx, job.UpdateParams{
			Namespace: p.Namespace, ID: p.ID, IfVersion: j.Version, Definition: d, Actor: p.Actor,
		})
		if !errors.Is(err, job.ErrConflict) || try == maxTries { // another change came between
			return err
		}
	}
}

// takeBack restores the version before the one that an operation wrote, if that is still the current one.
func (a *API) takeBack(ctx context.Context, p job.ChangeParams, it *item) error {
	j, err := a.Job(ctx, p.Namespace, p.ID)
	if err != nil {
		return err
	}
	it.name = j.Name
	before, err := a.JobVersion(ctx, p.Namespace, p.ID, it.version-1)
	if err != nil {
		return err
	}
	_, err = a.UpdateJob(ctx, job.UpdateParams{
		Namespace: p.Namespace, ID: p.ID, IfVersion: it.version, Definition: before.Definition, Rollback: before.Number,
		Actor: p.Actor,
	})
	if errors.Is(err, job.ErrConflict) && j.Version != it.version {
		err = fmt.Errorf("%w: it was changed since: it has version %d, and the operation wrote version %d",
			job.ErrConflict, j.Version, it.version)
	}
	return err
}

func (a *API) changeRun(ctx context.Context, o *activeOperation, it *item) error {
	k, err := job.ParseRunID(it.object)
	if err != nil {
		return job.ErrNotFound
	}
	p := job.RunParams{Namespace: o.namespace, Key: k, Actor: o.Actor}
	if o.Kind == job.CancelRuns {
		_, err = a.CancelRun(ctx, p)
		return err
	}
	switch {
	case it.run != nil:
		p.Attempt = &it.run.Attempt
	case it.attempt != nil:
		p.Attempt = it.attempt
	default:
		p.Began = o.until
	}
	return a.RetryRun(ctx, p)
}

// itemsOf reads the next items of an operation.
func (a *API) itemsOf(ctx context.Context, o *activeOperation, mark itemMark) (itemPage, error) {
	limit := min(o.Rate, itemBatch)
	switch {
	case o.Set.Jobs != nil:
		return a.jobItems(ctx, o, mark.Jobs, limit)
	case o.Set.Runs != nil:
		return a.runItems(ctx, o, mark.Runs, limit)
	case o.Set.Undo != uuid.Nil:
		return a.versionItems(ctx, o, mark.Jobs.ID, limit)
	}
	var page itemPage
	end := min(mark.IDs+limit, len(o.Set.IDs))
	for i := mark.IDs; i < end; i++ {
		it := item{object: o.Set.IDs[i], after: itemMark{IDs: i + 1}}
		if i < len(o.Set.Attempts) {
			it.attempt = &o.Set.Attempts[i]
		}
		page.items = append(page.items, it)
	}
	if end < len(o.Set.IDs) {
		page.next = &itemMark{IDs: end}
	}
	return page, nil
}

// jobItems reads jobs in the order of their ids. Those that were created after the operation are left out, and once
// they are certain to be all that is left, there are no more.
func (a *API) jobItems(ctx context.Context, o *activeOperation, after job.ListMark, limit int) (page itemPage, err error) {
	order := o.Set.Jobs.List(o.namespace)
	order.After, order.Limit = after, limit
	list, err := a.ListJobs(ctx, order)
	if err != nil {
		return page, err
	}
	if list.Next != nil {
		page.next = &itemMark{Jobs: *list.Next}
	}
	for i := range list.Jobs {
		j := &list.Jobs[i]
		switch {
		case j.CreatedAt.After(o.until.Add(createdLater)):
			page.next = nil
			return page, nil
		case o.Kind == job.SpreadJobs && !o.changes(j): // it stays as it is
		case !j.CreatedAt.After(o.until):
			mark := job.ListMark{ID: j.ID, Scan: after.Scan}
			page.items = append(page.items, item{
				object: job.FormatJobID(j.ID), name: j.Name, after: itemMark{Jobs: mark},
			})
		}
	}
	return page, nil
}

func (o *activeOperation) changes(j *job.Job) bool {
	_, changed := o.Change.Apply(o.Kind, j, o.until)
	return changed
}

// versionItems reads the versions that another operation wrote, in the order of the ids of their jobs.
func (a *API) versionItems(ctx context.Context, o *activeOperation, after uuid.UUID, limit int) (page itemPage, err error) {
	err = a.db.Query(ctx, store.In(o.namespace), func(rows pgx.Rows) error {
		var id uuid.UUID
		var version int32
		_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error {
			mark := itemMark{Jobs: job.ListMark{ID: id}}
			page.items = append(page.items, item{object: job.FormatJobID(id), version: version, after: mark})
			page.next = &mark
			return nil
		})
		return err
	}, `SELECT job_id, version FROM operation_version WHERE operation_id = $1 AND job_id > $2 ORDER BY job_id LIMIT $3`,
		o.Set.Undo, after, limit)
	return page, err
}

func (a *API) runItems(ctx context.Context, o *activeOperation, after job.RunMark, limit int) (page itemPage, err error) {
	q := runsOfSet(o.namespace, o.Kind, *o.Set.Runs, o.until)
	q.After, q.Limit = after, limit
	list, err := a.Runs(ctx, q)
	if err != nil {
		return page, err
	}
	if list.Next != nil {
		page.next = &itemMark{Runs: *list.Next}
	}
	mark := markEnded
	switch {
	case q.Job != uuid.Nil:
		mark = markOfJob
	case o.Kind == job.CancelRuns:
		mark = markLive
	}
	for i := range list.Entries {
		e := &list.Entries[i]
		page.items = append(page.items, item{
			object: job.FormatRunID(e.Key), name: e.JobName, run: e, after: itemMark{Runs: mark(*e)},
		})
	}
	return page, nil
}
