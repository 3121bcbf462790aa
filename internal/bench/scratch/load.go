package scratch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// loadChunk is how many jobs one statement writes. Progress is reported after each.
const loadChunk = 20_000

// Jobs describes many jobs that differ only in their schedules.
type Jobs struct {
	Definition job.Definition // without a schedule
	Jobs       int
	Schedules  int // job g has schedule g modulo this
}

// namespace is the namespace of the jobs.
var namespace = uuid.MustParse("00000000-0000-7000-8000-000000000001")

const insertQueue = `
INSERT INTO queue (namespace_id, name) VALUES ($1, $2)
ON CONFLICT (namespace_id, name) DO UPDATE SET name = excluded.name RETURNING id`

// The ids are those of jobs created a millisecond apart. The partition is job.PartitionOf. plan_from is long ago, so
// that jobs can have a backlog. The schedule is empty, because only edits read it from here.
const insertJobs = `
INSERT INTO job (
    partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms, timeout_ms,
    plan_from, created_at, name, updated_at, target_kind, target_config, payload, schedule, policy)
SELECT
    get_byte(sha256(uuid_send(id)), 0), id, $3, 1 + g % $4::bigint, $5, 1, 1, $6, $7, 0, $8,
    'epoch', created_at, 'job-' || g, created_at, $9, $10, $11, '{}', $12
FROM (
    SELECT g, now() AS created_at, (lpad(to_hex(1760000000000 + g), 12, '0') || '7' ||
        substr(md5(g::text), 1, 3) || '8' || substr(md5(g::text), 4, 15))::uuid AS id
    FROM generate_series($1::bigint, $2::bigint) g) x`

// LoadJobs writes jobs, and reports how many there are so far. Nothing is due before LoadCursors.
func (s *Database) LoadJobs(ctx context.Context, in Jobs, progress func(jobs int)) error {
	// Any schedule will do, because nothing that is derived from it is used.
	in.Definition.Schedule = schedule.Spec{Every: "1d"}
	d, err := postgres.Encode(in.Definition)
	if err != nil {
		return fmt.Errorf("load jobs: %w", err)
	}
	var queue int32
	if err := s.pool.QueryRow(ctx, insertQueue, namespace, d.Queue).Scan(&queue); err != nil {
		return fmt.Errorf("load jobs: %w", err)
	}
	for from := 0; from < in.Jobs; from += loadChunk {
		to := min(from+loadChunk, in.Jobs)
		_, err := s.pool.Exec(ctx, insertJobs, from, to-1, namespace, in.Schedules, queue, d.Priority, d.AdmitRule(),
			time.Duration(d.Timeout).Milliseconds(), d.Target.Kind, d.Config, d.Payload, d.Policy)
		if err != nil {
			return fmt.Errorf("load jobs: %w", err)
		}
		progress(to)
	}
	// Autovacuum has done this on a real table of this size.
	if _, err := s.pool.Exec(ctx, `VACUUM ANALYZE job`); err != nil {
		return fmt.Errorf("load jobs: %w", err)
	}
	return s.checkpoint(ctx)
}

// checkpoint keeps the writes of loading out of the measurement. Without the privilege it does nothing, and the server
// makes a checkpoint at some time.
func (s *Database) checkpoint(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `CHECKPOINT`); err != nil && store.Code(err) != "42501" { // insufficient_privilege
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// Cursor is a schedule and its first due time.
type Cursor struct {
	Schedule schedule.Spec
	Missed   job.Missed
	Next     time.Time
}

// A node that found no cursor searches from a minute ago on. With retry_at it also visits cursors that were due earlier.
const insertCursors = `
INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at, retry_at)
SELECT j.partition, c.id, $1, c.key, c.schedule, c.missed, c.next_due_at, CASE WHEN c.next_due_at < now() THEN now() END
FROM (
    SELECT unnest($2::bigint[]) AS id, unnest($3::bytea[]) AS key, unnest($4::text[]) AS schedule,
           unnest($5::text[]) AS missed, unnest($6::timestamptz[]) AS next_due_at) c
JOIN (SELECT DISTINCT partition, cursor_id FROM job) j ON j.cursor_id = c.id`

// LoadCursors gives the jobs their schedules in one transaction. They can be planned once it has committed. Cursor g
// belongs to the jobs with schedule g.
func (s *Database) LoadCursors(ctx context.Context, in []Cursor) error {
	var ids []int64
	var keys [][]byte
	var schedules, missed []string
	var next []time.Time
	for i, c := range in {
		d, err := postgres.EncodeCursor(c.Schedule, c.Missed)
		if err != nil {
			return fmt.Errorf("load schedules: %w", err)
		}
		ids, keys = append(ids, int64(i+1)), append(keys, d.Key)
		schedules, missed, next = append(schedules, d.Schedule), append(missed, d.Missed), append(next, c.Next)
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertCursors, namespace, ids, keys, schedules, missed, next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `ANALYZE cursor`); err != nil {
			return err
		}
		// What is due already was missed: its runs may start when they are planned, which is where Span begins.
		_, err := tx.Exec(ctx, `UPDATE partition SET missed_until = now() - interval '10 s'`)
		return err
	})
	if err != nil {
		return fmt.Errorf("load schedules: %w", err)
	}
	return nil
}

// Rewind removes the schedules and their runs. The jobs stay.
func (s *Database) Rewind(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `TRUNCATE cursor, cursor_skip, run, run_history, dead_letter`)
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	return s.checkpoint(ctx)
}

// Owners returns how many partitions have a live owner, and how many owners there are.
func (s *Database) Owners(ctx context.Context) (partitions, owners int, err error) {
	const query = `
SELECT count(*), count(DISTINCT owner)
FROM partition WHERE owner IN (SELECT id FROM session WHERE expires_at > now())`
	if err := s.pool.QueryRow(ctx, query).Scan(&partitions, &owners); err != nil {
		return 0, 0, fmt.Errorf("read who owns the partitions: %w", err)
	}
	return partitions, owners, nil
}

// Planned returns up to when everything is planned, and the time by the database clock.
func (s *Database) Planned(ctx context.Context) (until, now time.Time, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(min(next_due_at), now()), now() FROM cursor`).Scan(&until, &now)
	if err != nil {
		return until, now, fmt.Errorf("read how far it is planned: %w", err)
	}
	return until, now, nil
}

// Unended reports whether an occurrence that is due before a time is not planned or has not ended.
func (s *Database) Unended(ctx context.Context, before time.Time) (yes bool, err error) {
	const query = `
SELECT EXISTS (SELECT FROM run WHERE due_at < $1) OR EXISTS (SELECT FROM cursor WHERE next_due_at < $1)`
	if err := s.pool.QueryRow(ctx, query, before).Scan(&yes); err != nil {
		return false, fmt.Errorf("read what is left: %w", err)
	}
	return yes, nil
}

// Occurrence is an expected occurrence and what the ledger has about it.
type Occurrence struct {
	Key       job.Key
	Succeeded int // number of entries with success
	Attempts  int // number of attempts
}

// Expected is a due time of a schedule, which is given by its number.
type Expected struct {
	Schedule int
	DueAt    time.Time
}

const selectOccurrences = `
SELECT j.partition, j.id, e.due_at, coalesce(h.succeeded, 0), coalesce(h.attempts, 0)
FROM (SELECT unnest($1::bigint[]) AS cursor_id, unnest($2::timestamptz[]) AS due_at) e
JOIN job j ON j.cursor_id = e.cursor_id
LEFT JOIN (
    SELECT job_id, due_at, count(*) FILTER (WHERE ended = 1) AS succeeded, sum(attempt) AS attempts
    FROM run_history GROUP BY job_id, due_at) h ON h.job_id = j.id AND h.due_at = e.due_at`

// Occurrences iterates over the expected occurrences of all jobs of the schedules.
func (s *Database) Occurrences(ctx context.Context, expected []Expected, each func(Occurrence) error) error {
	ids, due := make([]int64, len(expected)), make([]time.Time, len(expected))
	for i, e := range expected {
		ids[i], due[i] = int64(e.Schedule+1), e.DueAt
	}
	rows, err := s.pool.Query(ctx, selectOccurrences, ids, due)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	var o Occurrence
	columns := []any{&o.Key.Partition, &o.Key.Job, &o.Key.DueAt, &o.Succeeded, &o.Attempts}
	_, err = pgx.ForEachRow(rows, columns, func() error { return each(o) })
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	return nil
}

// errNothingEnded says that no run in the ledger has succeeded.
var errNothingEnded = errors.New("no run has succeeded")

// Span returns, for the runs due from a time and before another, when the first could start and when the last one
// ended.
func (s *Database) Span(ctx context.Context, from, to time.Time) (first, last time.Time, err error) {
	var a, b *time.Time
	const query = `SELECT min(run_at), max(ended_at) FROM run_history WHERE ended = 1 AND due_at >= $1 AND due_at < $2`
	if err := s.pool.QueryRow(ctx, query, from, to).Scan(&a, &b); err != nil {
		return first, last, fmt.Errorf("read the ledger: %w", err)
	}
	if a == nil {
		return first, last, errNothingEnded
	}
	return *a, *b, nil
}
