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

// archiveBehind counts the days that can be closed and that the archive does not have. Names of days are compared, not
// parsed, because a DEFAULT partition has none.
const archiveBehind = `(
    SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'run_history'::regclass
      AND c.relname <= 'run_history_' || to_char((now() - interval '25 hours') AT TIME ZONE 'UTC', 'YYYYMMDD')
      AND NOT EXISTS (SELECT FROM archive_day WHERE c.relname = to_char(day, '"run_history_"YYYYMMDD')
                      AND archived_at IS NOT NULL AND NOT changed))`

// DaysUnaudited returns how many days the archive has whose audit failed, of those that are still in the database.
func (a *Archive) DaysUnaudited(ctx context.Context) (n int64, err error) {
	const count = `
SELECT count(*) FROM archive_day WHERE audit_failures > 0 AND archived_at IS NOT NULL AND dropped_at IS NULL`
	if err := a.db.QueryRow(ctx, count).Scan(&n); err != nil {
		return 0, fmt.Errorf("count days that are not audited: %w", err)
	}
	return n, nil
}

// DaysBehind returns how many days are over and not in the archive.
func (a *Archive) DaysBehind(ctx context.Context) (n int64, err error) {
	if err := a.db.QueryRow(ctx, `SELECT `+archiveBehind).Scan(&n); err != nil {
		return 0, fmt.Errorf("count days to archive: %w", err)
	}
	return n, nil
}

const archiveDays = `
SELECT day, CASE WHEN d.dropped_at IS NOT NULL AND d.manifest IS NULL THEN 'dropped'
                 WHEN d.dropped_at IS NOT NULL AND (d.changed OR d.archived_at IS NULL) THEN 'incomplete'
                 WHEN d.archived_at IS NOT NULL AND NOT d.changed THEN 'archived'
                 WHEN d.day IS NULL THEN 'open'
                 WHEN EXISTS (SELECT FROM session WHERE id = d.owner AND expires_at > now()) THEN 'exporting'
                 ELSE 'waiting' END,
       p.day IS NOT NULL, coalesce(d.generation, 0), d.archived_at, coalesce(d.runs, 0), coalesce(d.run_keys, 0)::text,
       coalesce(d.skips, 0), coalesce(d.skip_keys, 0)::text, coalesce(d.files, 0), coalesce(d.bytes, 0),
       coalesce(d.manifest, ''), coalesce(d.audit_failures, 0)
FROM archive_day d FULL JOIN (
    SELECT to_date(substring(c.relname FROM '[0-9]{8}$'), 'YYYYMMDD') AS day
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'run_history'::regclass
      AND c.relname <= 'run_history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) p USING (day)
WHERE day BETWEEN $1 AND $2 ORDER BY day DESC LIMIT $3`

// ArchiveDays lists days of history, the newest first.
func (a *Archive) ArchiveDays(ctx context.Context, from, to archive.Day, limit int) ([]archive.DayState, error) {
	rows, err := a.db.Query(ctx, archiveDays, from.Start(), to.Start(), limit)
	if err != nil {
		return nil, fmt.Errorf("list archived days: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s archive.DayState, err error) {
		var day time.Time
		var runKeys, skipKeys string
		if err := row.Scan(&day, &s.State, &s.InDatabase, &s.Generation, &s.ArchivedAt, &s.Runs.Rows, &runKeys,
			&s.Skips.Rows, &skipKeys, &s.Files, &s.Bytes, &s.Manifest,
			&s.AuditFailures); err != nil {
			return s, err
		}
		s.Day = archive.DayOf(day)
		if s.Runs.Keys, err = archive.ParseHash(runKeys); err != nil {
			return s, err
		}
		s.Skips.Keys, err = archive.ParseHash(skipKeys)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("list archived days: %w", err)
	}
	return out, nil
}

// NamespaceOf returns the namespace of a job, also of a deleted one, or ErrNotFound.
func (a *Archive) NamespaceOf(ctx context.Context, id uuid.UUID) (namespace uuid.UUID, err error) {
	const read = `SELECT namespace_id FROM job_version WHERE partition = $1 AND job_id = $2 LIMIT 1`
	err = a.db.QueryRow(ctx, read, job.PartitionOf(id), id).Scan(store.Raw(&namespace))
	if store.NoRows(err) {
		return namespace, job.ErrNotFound
	}
	if err != nil {
		return namespace, fmt.Errorf("find the namespace of a job: %w", err)
	}
	return namespace, nil
}

// JobNamed returns the job of a namespace with this name, or ErrNotFound.
func (a *Archive) JobNamed(ctx context.Context, namespace uuid.UUID, name string) (id uuid.UUID, err error) {
	err = a.db.QueryRow(ctx, `SELECT id FROM job WHERE namespace_id = $1 AND name = $2`, namespace, name).Scan(store.Raw(&id))
	if store.NoRows(err) {
		return id, job.ErrNotFound
	}
	if err != nil {
		return id, fmt.Errorf("find a job by its name: %w", err)
	}
	return id, nil
}
