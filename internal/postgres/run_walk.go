package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

const (
	// listTime is how long a statement reads windows for one page, by the clock of the database. The windows that are
	// left are for the next page.
	listTime    = time.Second
	windowLeast = time.Second // the width of the first window, if a statement with a wider one was too slow
	allTime     = 230 * 366 * 24 * time.Hour
)

// walk is how a list goes back in time, down to bottom: in windows [from, to), each twice as wide as the one before.
// That bounds the work for a page, whether a second has a thousand rows or a year has three. There is no need to search
// before oldest step by step.
type walk struct {
	now, to, oldest, bottom time.Time
	width                   time.Duration // of the first window
}

// windows lists the windows, the newest first.
func (w *walk) windows() (from, to []time.Time) {
	at := w.to
	for width := w.width; w.bottom.Before(at); width *= 2 {
		next := earlier(at, w.now).Add(-width)
		if !next.After(w.oldest) {
			next = w.oldest
		}
		if !next.After(w.bottom) || !next.Before(at) {
			next = w.bottom
		}
		from, to, at = append(from, next), append(to, at), next
	}
	return from, to
}

// back reads a page. One statement reads window after window until the page is full or its time is up.
func (w *walk) back(ctx context.Context, args pgx.NamedArgs, read func() error) error {
	args["time"] = listTime
	for {
		args["froms"], args["tos"] = w.windows()
		err := read()
		switch {
		case !store.GaveUp(ctx, err):
			return err
		case w.width <= windowLeast:
			return fmt.Errorf("%w: %w", job.ErrSlowList, err)
		}
		w.width = windowLeast
	}
}

// restPartition is the partition of a row that is not one: it says where the rest of a list begins.
const restPartition = -1

const firstID = `00000000-0000-0000-0000-000000000000`

// windowed returns a statement that runs another one for one window w after the other, as long as its time t is not up.
// Then it returns a row of the rest, made of a record of the table. A lateral join with a limit
// can only be a nested loop, so the limit of the page ends the reading.
func windowed(sql, columns, table, alias string) string {
	return `
    SELECT u.* FROM unnest(@froms::timestamptz[], @tos::timestamptz[]) w (from_at, to_at), LATERAL (
        SELECT w.to_at IS NOT NULL AND clock_timestamp() - statement_timestamp() > @time::interval AS up) t, LATERAL (
        (` + sql + `)
        UNION ALL
        SELECT ` + columns + ` FROM jsonb_populate_record(NULL::` + table + `, jsonb_build_object(
            'partition', -1, 'job_id', '` + firstID + `', 'due_at', w.to_at, 'run_at', w.to_at, 'ended_at', w.to_at,
            'failed_at', w.to_at, 'seq', 0, 'version', 0, 'ended', 0, 'attempt', 0, 'origin', 0, 'status', 0,
            'reason', '', 'cause', '', 'message', '')) ` + alias + ` WHERE t.up) u
    LIMIT @limit`
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
