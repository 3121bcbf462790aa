package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// cursor is one that this transaction has locked: every occurrence before next
// is planned for the jobs that have it.
type cursor struct {
	id   int64
	next *time.Time // nil: to the end
}

// before says that the cursor has not come to t yet.
func (c cursor) before(t time.Time) bool { return c.next != nil && !c.next.After(t) }

// left is the state of a job that the cursor plans for: is there more to come?
func (c cursor) left(endAt *time.Time, runsLeft *int32) job.State {
	switch {
	case c.next == nil, endAt != nil && !c.next.Before(*endAt), runsLeft != nil && *runsLeft <= 0:
		return job.Finished
	default:
		return job.Active
	}
}

const selectCursors = `SELECT id, next_due_at FROM cursor WHERE partition = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE`

// lockCursors locks cursors in the order of their ids.
func lockCursors(ctx context.Context, tx pgx.Tx, partition int16, ids []int64) (map[int64]cursor, error) {
	rows, err := tx.Query(ctx, selectCursors, partition, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]cursor, len(ids))
	var c cursor
	_, err = pgx.ForEachRow(rows, []any{&c.id, &c.next}, func() error {
		out[c.id] = c
		c.next = nil // each its own
		return nil
	})
	return out, err
}

// cursorKey names a cursor.
type cursorKey struct {
	partition int16
	namespace uuid.UUID
	key       []byte
}

const whereCursor = ` FROM cursor WHERE partition = $1 AND namespace_id = $2 AND key = $3`

// findCursor returns the id of a cursor, without a lock, or 0.
func findCursor(ctx context.Context, tx pgx.Tx, k cursorKey) (id int64, err error) {
	err = tx.QueryRow(ctx, `SELECT id`+whereCursor, k.partition, k.namespace, k.key).Scan(&id)
	if noRows(err) {
		return 0, nil
	}
	return id, err
}

const insertCursor = `
INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING id, next_due_at`

// makeCursor makes a cursor, or returns errMoved if another made it first.
// Cursors that exist must be locked before: of the ids, the new one's is the last.
func (s *Store) makeCursor(ctx context.Context, tx pgx.Tx, k cursorKey, d *definition, now time.Time) (c cursor, err error) {
	shared, err := s.schedules.get(d.shared)
	if err != nil {
		return c, err
	}
	var next *time.Time
	first, err := job.FirstDue(shared, now)
	switch {
	case err == nil:
		next = &first
	case !errors.Is(err, schedule.ErrNoMore):
		return c, err
	}
	err = tx.QueryRow(ctx, insertCursor, k.partition, k.namespace, k.key, d.shared, d.missed, next).Scan(&c.id, &c.next)
	if noRows(err) {
		return c, errMoved
	}
	return c, err
}

// joinCursor locks the cursor of a definition, or makes it, and reads the clock.
func (s *Store) joinCursor(ctx context.Context, tx pgx.Tx, k cursorKey, d *definition) (c cursor, now time.Time, err error) {
	var found bool
	var batch pgx.Batch
	batch.Queue(`SELECT id, next_due_at`+whereCursor+` FOR UPDATE`, k.partition, k.namespace, k.key).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&c.id, &c.next}, func() error { found = true; return nil })
		return err
	})
	batch.Queue(readClock).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return c, now, err
	}
	now = now.UTC()
	if found {
		return c, now, nil
	}
	c, err = s.makeCursor(ctx, tx, k, d, now)
	return c, now, err
}
