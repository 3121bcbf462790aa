package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// Archive has the days of history as the archiver sees them, in all namespaces.
type Archive struct{ db store.All }

// Archive returns an Archive.
func (d *DB) Archive() *Archive { return &Archive{d.pool.All()} }

// RequireArchive sets whether a day may be dropped only if the archive has it, and reports whether that is a change.
func (a *Archive) RequireArchive(ctx context.Context, required bool) (changed bool, err error) {
	const set = `UPDATE archive_setting SET required = $1 WHERE required <> $1`
	tag, err := a.db.Exec(ctx, set, required)
	if err != nil {
		return false, fmt.Errorf("store whether the archive is required: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// ArchiveRequired reports whether a day may be dropped only if the archive has it.
func (a *Archive) ArchiveRequired(ctx context.Context) (required bool, err error) {
	if err := a.db.QueryRow(ctx, `SELECT required FROM archive_setting`).Scan(&required); err != nil {
		return false, fmt.Errorf("read whether the archive is required: %w", err)
	}
	return required, nil
}

// CloseDays closes the days that ended at least an hour ago, and returns how many there were. A day that a long
// transaction writes to is left for later.
func (a *Archive) CloseDays(ctx context.Context) (n int, err error) {
	for ; ; n++ {
		var day time.Time // each in a transaction of its own
		err := a.db.QueryRow(ctx, `SELECT belfry_close_history() WHERE belfry_clock_trusted()`).Scan(&day)
		switch {
		case store.NoRows(err), store.Code(err) == store.LockNotAvailable:
			return n, nil
		case err != nil:
			return n, fmt.Errorf("close a day of history: %w", err)
		}
	}
}

// A day that was dropped or detached by hand has no rows to export.
const noteGoneDays = `
UPDATE archive_day d SET dropped_at = now(), owner = NULL
WHERE dropped_at IS NULL AND NOT EXISTS (
    SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'run_history'::regclass AND c.relname = to_char(d.day, '"run_history_"YYYYMMDD'))`

// A day that changed is exported again as its next generation. The mark is removed before its rows are read, so a row
// that comes later sets it again. A day that always fails does not block others, because those come first.
const takeDay = `
UPDATE archive_day SET owner = $1, epoch = epoch + 1, generation = generation + CASE WHEN changed THEN 1 ELSE 0 END,
    changed = false, archived_at = NULL, tried_at = now()
WHERE day = (
    SELECT day FROM archive_day d
    WHERE (archived_at IS NULL OR changed) AND dropped_at IS NULL AND belfry_clock_trusted()
      AND (owner IS NULL OR owner = $1 OR NOT EXISTS (SELECT FROM session WHERE id = d.owner AND expires_at > now()))
      AND EXISTS (SELECT FROM session WHERE id = $1 AND expires_at > now())
    ORDER BY tried_at NULLS FIRST, day LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING day, generation, epoch, audit_failures`

// TakeDay makes a session the owner of a day to export, or returns ErrNotFound. The oldest day comes first, except for
// those that were tried.
func (a *Archive) TakeDay(ctx context.Context, session uuid.UUID) (archive.Task, error) {
	t := archive.Task{Session: session}
	if _, err := a.db.Exec(ctx, noteGoneDays); err != nil {
		return t, fmt.Errorf("note days of history that are gone: %w", err)
	}
	var day time.Time
	err := a.db.QueryRow(ctx, takeDay, session).Scan(&day, &t.Generation, &t.Epoch, &t.AuditFailures)
	if store.NoRows(err) {
		return t, job.ErrNotFound
	}
	if err != nil {
		return t, fmt.Errorf("take a day of history: %w", err)
	}
	t.Day = archive.DayOf(day)
	return t, nil
}

// FinishDay notes the outcome of a day, if it still belongs to the session. It returns ErrConflict otherwise.
func (a *Archive) FinishDay(ctx context.Context, t archive.Task, r archive.Result) error {
	const release = `
UPDATE archive_day SET owner = NULL, audit_failures = $5
WHERE day = $1 AND owner = $2 AND epoch = $3 AND generation = $4`
	const again = `
UPDATE archive_day SET generation = generation + 1, owner = NULL
WHERE day = $1 AND owner = $2 AND epoch = $3 AND generation = $4`
	const done = `
UPDATE archive_day SET archived_at = now(), owner = NULL, tried_at = NULL, runs = $5, run_keys = $6::numeric, skips = $7,
    skip_keys = $8::numeric, files = $9, bytes = $10, manifest = $11, audit_failures = $12
WHERE day = $1 AND owner = $2 AND epoch = $3 AND generation = $4 AND belfry_clock_trusted()`
	args := []any{t.Day.Start(), t.Session, t.Epoch, t.Generation}
	failures := t.AuditFailures
	if r.AuditFailed {
		failures++
	}
	sql := again
	switch {
	case r.Failed:
		sql, args = release, append(args, failures)
	case !r.Again:
		m := &r.Manifest
		runs, skips := m.Sum(archive.Runs), m.Sum(archive.Skips)
		var bytes int64
		for i := range m.Files {
			bytes += m.Files[i].Bytes
		}
		sql = done
		if !r.AuditFailed {
			failures = 0
		}
		args = append(args, runs.Rows, runs.Keys.String(), skips.Rows, skips.Keys.String(), len(m.Files), bytes, m.Name(),
			failures)
	}
	tag, err := a.db.Exec(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("note an archived day: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w: another node has taken %s", job.ErrConflict, t.Day)
	}
	return nil
}

// How many pages of 8 kB one statement reads: its snapshot must not be held for long, and the rows are in memory. The
// largest results are stored elsewhere, so a page may have 40 rows of 20 kB each.
const (
	readPages = 64 // some 2,500 rows
	sumPages  = 4096
)

// dayPages returns how many pages the table of a day has.
func dayPages(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, d archive.Day,
) (pages int64, err error) {
	const size = `SELECT pg_relation_size(to_regclass($1)) / current_setting('block_size')::bigint`
	err = db.QueryRow(ctx, size, d.Start().Format("run_history_20060102")).Scan(&pages)
	return pages, err
}

// inPages is a condition on h: it is on one of some pages of a day. History is stored by time, and so each page is read
// once. Of the table that is partitioned only the day is read, because of the condition on ended_at.
const inPages = `h.ended_at >= $1 AND h.ended_at < $2 AND h.ctid >= $3::text::tid AND h.ctid < $4::text::tid`

func pagesOf(d archive.Day, page, n int64) []any {
	at := func(page int64) string { return fmt.Sprintf("(%d,0)", page) }
	return []any{d.Start(), d.Start().AddDate(0, 0, 1), at(page), at(page + n)}
}

const readDay = `
SELECT q.namespace_id, q.name, h.partition, h.job_id, h.due_at, h.seq, h.version, h.run_at, h.started_at, h.ended_at,
       h.ended, h.attempt, h.origin, h.status, h.session_id, h.due_to, h.count, h.reason, h.message, h.attempts,
       h.idempotency_key, h.result, h.trace
FROM run_history h LEFT JOIN queue q ON q.id = h.queue_id
WHERE ` + inPages

// ReadRuns reads the rows of the day from a page of its table on, and returns the page to continue from, or -1.
func (a *Archive) ReadRuns(
	ctx context.Context, d archive.Day, page int64,
) (out []archive.Placed[archive.Run], next int64, err error) {
	err = a.db.Tx(ctx, "read a day of history", func(tx pgx.Tx) error {
		pages, err := dayPages(ctx, tx, d)
		if err != nil {
			return err
		}
		if next = page + readPages; next >= pages {
			next = -1
		}
		rows, err := tx.Query(ctx, readDay, pagesOf(d, page, readPages)...)
		if err != nil {
			return err
		}
		read, err := pgx.CollectRows(rows, scanArchived)
		if err != nil {
			return err
		}
		named, err := namesOf(ctx, tx, read)
		if err != nil {
			return err
		}
		out = make([]archive.Placed[archive.Run], 0, len(read))
		for i := range read {
			r, v := &read[i], named[versionKey{read[i].Job, read[i].Version}]
			if r.namespace == nil {
				r.namespace = &v.namespace
			}
			r.JobName = v.name
			row, err := archive.NewRun(r.Entry, v.labels)
			if err != nil {
				return err
			}
			out = append(out, archive.Placed[archive.Run]{Namespace: *r.namespace, Row: row})
		}
		return nil
	})
	return out, next, err
}

// versionKey is a version of a job.
type versionKey struct {
	job     uuid.UUID
	version int32
}

// versionName is what the archive keeps of a version.
type versionName struct {
	namespace uuid.UUID
	name      string
	labels    map[string]string
}

const versionNames = `
SELECT v.job_id, v.version, v.namespace_id, coalesce(v.definition::jsonb ->> 'name', ''), v.definition::jsonb -> 'labels'
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::integer[]) AS version) k
JOIN job_version v ON v.partition = k.partition AND v.job_id = k.job_id AND v.version = k.version`

// namesOf reads the names and labels of the versions of some rows, each once. A version that was removed has none.
func namesOf(ctx context.Context, tx pgx.Tx, read []archived) (map[versionKey]versionName, error) {
	out := map[versionKey]versionName{}
	var partitions []int16
	var jobs []uuid.UUID
	var versions []int32
	for i := range read {
		k := versionKey{read[i].Job, read[i].Version}
		if _, ok := out[k]; !ok {
			out[k] = versionName{}
			partitions, jobs = append(partitions, read[i].Partition), append(jobs, k.job)
			versions = append(versions, k.version)
		}
	}
	rows, err := tx.Query(ctx, versionNames, partitions, jobs, versions)
	if err != nil {
		return nil, err
	}
	var k versionKey
	var v versionName
	_, err = pgx.ForEachRow(rows, []any{&k.job, &k.version, &v.namespace, &v.name, &v.labels}, func() error {
		out[k] = v
		v.labels = nil
		return nil
	})
	return out, err
}

// archived is a row of history. Its namespace is that of its queue.
type archived struct {
	job.Entry
	namespace *uuid.UUID
}

func scanArchived(row pgx.CollectableRow) (out archived, err error) {
	e := &out.Entry
	var started, dueTo *time.Time
	var ended job.Ended
	var session *uuid.UUID
	var count *int64
	var queue, reason, message, key, result, trace *string
	var attempts []byte
	var status int16
	err = row.Scan(
		&out.namespace, &queue, &e.Partition, &e.Job, &e.DueAt, &e.Seq, &e.Version, &e.RunAt, &started,
		&e.EndedAt, &ended, &e.Attempt, &e.Origin, &status, &session, &dueTo, &count, &reason, &message, &attempts, &key,
		&result, &trace,
	)
	if err != nil {
		return out, err
	}
	e.StartedAt, e.DueTo, e.Session, e.Count = store.OrZero(started), store.OrZero(dueTo), store.OrZero(session), store.OrZero(count)
	e.Queue, e.Reason, e.Message = store.OrZero(queue), job.Reason(store.OrZero(reason)), store.OrZero(message)
	e.Code, e.Result, e.Trace, e.Status = int(status), store.OrZero(result), store.OrZero(trace), job.EndedStatus(ended)
	e.OwnKey = store.OrZero(key)
	e.Attempts, err = readAttempts(attempts)
	return out, err
}

// readSkips reads after a row, by the index on created_at.
const readSkips = `
SELECT coalesce(c.namespace_id, '00000000-0000-0000-0000-000000000000'), s.partition, s.cursor_id, s.from_due, s.to_due,
       s.count, s.reason, s.created_at, coalesce(c.schedule, ''), coalesce(c.missed, '')
FROM cursor_skip s LEFT JOIN cursor c ON c.partition = s.partition AND c.id = s.cursor_id
WHERE s.created_at >= $1 AND s.created_at < $2
  AND (s.created_at, s.partition, s.cursor_id, s.from_due, s.reason) > ($1, $3, $4, $5, $6)
ORDER BY s.created_at, s.partition, s.cursor_id, s.from_due, s.reason LIMIT $7`

const skipsPage = 10_000

// ReadSkips reads what cursors skipped, after a row (nil: from the first on), and no rows at the end.
func (a *Archive) ReadSkips(
	ctx context.Context, d archive.Day, after *archive.Skip,
) ([]archive.Placed[archive.Skip], error) {
	from, last := d.Start(), archive.Skip{Partition: -1}
	if after != nil {
		from, last = time.UnixMicro(after.CreatedAt), *after
	}
	rows, err := a.db.Query(
		ctx, readSkips, from, d.Start().AddDate(0, 0, 1), last.Partition, last.Cursor, time.UnixMicro(last.From),
		last.Reason, skipsPage,
	)
	if err != nil {
		return nil, fmt.Errorf("read skips: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p archive.Placed[archive.Skip], err error) {
		var from, to, created time.Time
		s := &p.Row
		err = row.Scan(&p.Namespace, &s.Partition, &s.Cursor, &from, &to, &s.Count, &s.Reason, &created, &s.Schedule,
			&s.Missed)
		s.From, s.To, s.CreatedAt = from.UnixMicro(), to.UnixMicro(), created.UnixMicro()
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("read skips: %w", err)
	}
	return out, nil
}

// micros is a column of a time in microseconds since 1970. It is exact: extract returns a numeric.
func micros(column string) string { return `(extract(epoch FROM ` + column + `) * 1000000)::bigint` }

// keyHash is the first 60 bits of the MD5 of a key, see archive.Sum.
func keyHash(key string) string {
	return `count(*), coalesce(sum(('x' || left(md5(concat_ws('|', ` + key + `)), 15))::bit(60)::bigint), 0)::text`
}

var (
	sumRuns = `SELECT ` + keyHash(`h.job_id, `+micros(`h.due_at`)+`, h.seq, `+micros(`h.ended_at`)) + `
FROM run_history h WHERE ` + inPages
	sumSkips = `SELECT ` + keyHash(`partition, cursor_id, `+micros(`from_due`)+`, reason`) + `
FROM cursor_skip WHERE created_at >= $1 AND created_at < $2`
)

// maxPage is after every page of a table.
const maxPage = 1<<32 - 1

// SumDay counts the rows of the day and adds up the hashes of their keys. The last statement has no end, so it also sees
// what ReadRuns would miss at the end of the table.
func (a *Archive) SumDay(ctx context.Context, d archive.Day) (runs, skips archive.Sum, err error) {
	pages, err := dayPages(ctx, a.db, d)
	if err != nil {
		return runs, skips, fmt.Errorf("add up a day of history: %w", err)
	}
	for page := int64(0); page == 0 || page < pages; page += sumPages {
		n := int64(sumPages)
		if page+n >= pages {
			n = maxPage - page
		}
		if err := a.sum(ctx, &runs, sumRuns, pagesOf(d, page, n)...); err != nil {
			return runs, skips, err
		}
	}
	err = a.sum(ctx, &skips, sumSkips, d.Start(), d.Start().AddDate(0, 0, 1))
	return runs, skips, err
}

func (a *Archive) sum(ctx context.Context, s *archive.Sum, sql string, args ...any) error {
	var rows int64
	var keys string
	if err := a.db.QueryRow(ctx, sql, args...).Scan(&rows, &keys); err != nil {
		return fmt.Errorf("add up a day of history: %w", err)
	}
	h, err := archive.ParseHash(keys)
	if err != nil {
		return err
	}
	s.Merge(archive.Sum{Rows: rows, Keys: h})
	return nil
}
