package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// judgeBatch reads the entries of jobs in their windows and judges them.
func judgeBatch(
	ctx context.Context, db store.All, times *auditor.Times, batch []*auditor.Expected,
) (out auditor.Report, err error) {
	if len(batch) == 0 {
		return out, nil
	}
	var g auditor.Judge
	err = db.Tx(ctx, "audit", func(tx pgx.Tx) error {
		g = auditor.Judge{}
		if _, err := tx.Exec(ctx, store.Apply(store.KeyLookups)); err != nil {
			return err
		}
		skips, err := readCursorSkips(ctx, tx, batch)
		if err != nil {
			return err
		}
		if err := judgeEntries(ctx, tx, &g, batch, skips); err != nil {
			return err
		}
		return confirmSuspects(ctx, tx, &g, times)
	})
	return g.Report, err
}

// planned is a condition on cursor_skip: gaps and calendars are no due times at all.
const planned = `reason NOT IN ('dst_gap', 'calendar')`

// cursorSkips reads the ranges of cursors that begin in a window, and the one that may reach into it: no other begins
// between its ends.
const cursorSkips = `
SELECT k.n, s.from_due, s.to_due, s.count, s.reason
FROM (SELECT unnest($1::integer[]) AS n, unnest($2::smallint[]) AS partition, unnest($3::bigint[]) AS cursor_id,
             unnest($4::timestamptz[]) AS after, unnest($5::timestamptz[]) AS until) k, LATERAL (
    (SELECT from_due, to_due, count, reason FROM cursor_skip
     WHERE partition = k.partition AND cursor_id = k.cursor_id AND from_due > k.after AND from_due <= k.until
       AND ` + planned + ` OFFSET 0)
    UNION ALL
    (SELECT * FROM (
        SELECT from_due, to_due, count, reason FROM cursor_skip
        WHERE partition = k.partition AND cursor_id = k.cursor_id AND from_due <= k.after
        ORDER BY from_due DESC LIMIT 5) b
     WHERE to_due > k.after AND ` + planned + `)) s`

type cursorWindow struct {
	cursor int64 // ids are unique in a database
	window auditor.Window
}

// readCursorSkips reads what the cursors of the jobs skipped, once for jobs that share a cursor and a window.
func readCursorSkips(
	ctx context.Context, tx pgx.Tx, batch []*auditor.Expected,
) (map[cursorWindow][]job.Skip, error) {
	var numbers []int32
	var partitions []int16
	var cursors []int64
	var after, until []time.Time
	var keys []cursorWindow
	out := map[cursorWindow][]job.Skip{}
	for _, e := range batch {
		k := cursorWindow{e.Job.Cursor, e.Window}
		if _, ok := out[k]; ok || e.Job.State == 0 || e.Len() == 0 {
			continue
		}
		out[k] = nil
		numbers, partitions = append(numbers, int32(len(keys))), append(partitions, e.Job.Partition)
		cursors, keys = append(cursors, e.Job.Cursor), append(keys, k)
		after, until = append(after, e.Window.From), append(until, e.Window.To)
	}
	rows, err := tx.Query(ctx, cursorSkips, numbers, partitions, cursors, after, until)
	if err != nil {
		return nil, err
	}
	var n int32
	var s job.Skip
	_, err = pgx.ForEachRow(rows, []any{&n, &s.From, &s.To, &s.Count, &s.Reason}, func() error {
		out[keys[n]] = append(out[keys[n]], s)
		return nil
	})
	return out, err
}

// ledgerEntries reads the entries of jobs by schedule, and backfills, in their windows, in the order of jobs, due times
// and ends, and the range of each that may reach into its window: a job has no other entry by schedule between the ends
// of one. Entries that ended long before the window are of earlier due times. A run is claimed at most a second before it
// is due.
const ledgerEntries = `
SELECT k.n, e.due_at, e.due_to, e.seq, e.version, e.origin, e.ended, e.reason, e.early
FROM (SELECT unnest($1::integer[]) AS n, unnest($2::smallint[]) AS partition, unnest($3::uuid[]) AS job_id,
             unnest($4::timestamptz[]) AS after, unnest($5::timestamptz[]) AS until) k, LATERAL (
    (SELECT due_at, NULL::timestamptz AS due_to, seq, version, origin, 0::smallint AS ended, '' AS reason,
            false AS early, NULL::timestamptz AS ended_at
     FROM run
     WHERE partition = k.partition AND job_id = k.job_id AND due_at > k.after AND due_at <= k.until
       AND (seq = 0 OR origin = 2 /* backfill */) OFFSET 0)
    UNION ALL
    (SELECT due_at, due_to, seq, version, origin, ended, coalesce(reason, ''),
            ended IN (1, 2) /* succeeded, failed */ AND attempt > 0
            AND (ended_at < due_at OR started_at < due_at - interval '1 s'), ended_at
     FROM run_history
     WHERE job_id = k.job_id AND due_at > k.after AND due_at <= k.until AND ended_at >= $6
       AND (seq = 0 OR origin = 2 /* backfill */) OFFSET 0)
    UNION ALL
    (SELECT due_at, due_to, seq, version, origin, ended, coalesce(reason, ''), false, ended_at FROM (
        SELECT * FROM run_history
        WHERE job_id = k.job_id AND due_at <= k.after AND ended_at >= $6 AND seq = 0
        ORDER BY due_at DESC LIMIT 5) b
     WHERE due_to > k.after)) e
ORDER BY k.n, e.due_at, e.seq, e.ended_at`

// judgeEntries passes the entries of the jobs to the judge, one after the other.
func judgeEntries(
	ctx context.Context, tx pgx.Tx, g *auditor.Judge, batch []*auditor.Expected, skips map[cursorWindow][]job.Skip,
) error {
	var numbers []int32
	var partitions []int16
	var jobs []uuid.UUID
	var after, until []time.Time
	first := batch[0].Window.From
	for i, e := range batch {
		numbers, partitions = append(numbers, int32(i)), append(partitions, e.Job.Partition)
		jobs, after, until = append(jobs, e.Job.ID), append(after, e.Window.From), append(until, e.Window.To)
		if e.Window.From.Before(first) {
			first = e.Window.From
		}
	}
	rows, err := tx.Query(ctx, ledgerEntries, numbers, partitions, jobs, after, until, first.Add(-auditDay))
	if err != nil {
		return err
	}
	begun := -1
	begin := func(upTo int) {
		for begun < upTo {
			if begun >= 0 {
				g.End()
			}
			begun++
			e := batch[begun]
			g.Begin(e, skips[cursorWindow{e.Job.Cursor, e.Window}])
		}
	}
	var n int32
	var e auditor.Entry
	var to *time.Time
	_, err = pgx.ForEachRow(rows, []any{
		&n, &e.DueAt, &to, &e.Seq, &e.Version, &e.Origin, &e.Ended, &e.Reason, &e.Early,
	}, func() error {
		begin(int(n))
		e.DueTo = store.OrZero(to)
		g.Entry(e)
		to = nil
		return nil
	})
	begin(len(batch) - 1)
	g.End()
	return err
}

// coveringSkips reads the ranges of all cursors of a partition, also of those that are gone, that a time may lie in.
const coveringSkips = `
SELECT from_due, to_due, count, reason FROM cursor_skip
WHERE partition = $1 AND from_due <= $3 AND to_due >= $2 AND ` + planned + ` LIMIT 10000`

// confirmSuspects decides the occurrences without an entry. There are few, so each job is read on its own.
func confirmSuspects(ctx context.Context, tx pgx.Tx, g *auditor.Judge, times *auditor.Times) error {
	all := g.Suspects
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Job == all[0].Job {
			n++
		}
		of := all[:n]
		all = all[n:]
		rows, err := tx.Query(ctx, coveringSkips, of[0].Job.Partition, of[0].DueAt, of[n-1].DueAt)
		if err != nil {
			return err
		}
		var ranges []job.Skip
		var r job.Skip
		_, err = pgx.ForEachRow(rows, []any{&r.From, &r.To, &r.Count, &r.Reason}, func() error {
			ranges = append(ranges, r)
			return nil
		})
		if err != nil {
			return err
		}
		for _, s := range of {
			g.Confirm(times, s, ranges)
		}
	}
	return nil
}
