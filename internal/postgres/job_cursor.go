package postgres

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// cursor is a cursor that this transaction has locked. Every occurrence before next is planned for its jobs.
type cursor struct {
	id    int64
	next  *time.Time // nil: the schedule has ended
	after *uuid.UUID // next is planned for jobs up to this one; nil: for none
}

// of returns the cursor as one of its jobs sees it: if next is planned for that job, the cursor has passed it.
func (c cursor) of(id uuid.UUID) cursor {
	if c.after != nil && bytes.Compare(id[:], c.after[:]) <= 0 {
		next := c.next.Add(store.Instant)
		c.next = &next
	}
	return c
}

// before reports whether the cursor has not passed t yet.
func (c cursor) before(t time.Time) bool { return c.next != nil && !c.next.After(t) }

// left returns the state of a job of this cursor, and its end. A job without more occurrences is finished, or ends
// after the last of the runs that are written with it.
func (c cursor) left(endAt *time.Time, due []job.DueTime, now time.Time) (state job.State, end *time.Time) {
	if c.next != nil && (endAt == nil || c.next.Before(*endAt)) {
		return job.Active, endAt
	}
	if len(due) == 0 || !due[len(due)-1].DueAt.After(now) {
		return job.Finished, endAt
	}
	last := due[len(due)-1].DueAt.Add(store.Instant)
	return job.Active, &last
}

// nextDue returns when a job of this cursor is due next, if the runs of due are already written.
func (c cursor) nextDue(state job.State, due []job.DueTime, planFrom time.Time, d *definition) time.Time {
	in := job.NextDueInput{State: state, Cursor: c.next, PlanFrom: planFrom, Schedule: d.own}
	if len(due) > 0 {
		in.Pending = &due[0].DueAt
	}
	return job.NextDue(in)
}

const insertCursor = `
INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING id, next_due_at`

// createCursor creates a cursor, or returns errMoved if another transaction created it first. Lock existing cursors
// before: locks are taken in the order of ids, and the new id is the highest.
func (u *update) createCursor(ctx context.Context, a *API, k cursorAt) (c cursor, err error) {
	d := u.new
	next, err := a.firstDue(d, u.now)
	if err != nil {
		return c, err
	}
	err = u.tx.QueryRow(ctx, insertCursor, k.partition, u.job.Namespace, k.key[:], d.shared, d.missed, next).Scan(&c.id, &c.next)
	if store.NoRows(err) {
		return c, errMoved
	}
	return c, err
}

// firstDue returns where a new cursor starts; nil: its schedule has ended.
func (a *API) firstDue(d *definition, now time.Time) (*time.Time, error) {
	shared, err := a.schedules.Get(d.shared)
	if err != nil {
		return nil, err
	}
	first, err := job.FirstDue(shared, now)
	if errors.Is(err, schedule.ErrNoMore) {
		return nil, nil
	}
	return &first, err
}
