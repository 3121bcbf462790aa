package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/store"
	"github.com/belfry-dev/belfry/internal/timeline"
)

// lifeReader reads what matters of the life of a job in a window of due times. The caller sets Life.ID.
type lifeReader struct {
	tx        pgx.Tx
	namespace uuid.UUID
	partition int16
	from, to  time.Time

	ledger.Life
	row         *jobRow // nil: the job is deleted
	deletedBy   string
	definitions []job.Definition // of Versions
	problems    []string         // why nodes cannot plan their cursors; empty: they can
	known       time.Time        // see timeline.Facts
}

// read reads the job, its versions, and what the cursors of those skipped.
func (r *lifeReader) read(ctx context.Context) error {
	if err := r.readJob(ctx); err != nil {
		return err
	}
	return r.readSkips(ctx)
}

// lifeVersions reads the versions that were in force in a window, the newest first. A large payload is left out.
const lifeVersions = `
SELECT v.version, v.created_at, v.actor, CASE
           WHEN length(v.definition) < 20000 THEN v.definition
           ELSE (v.definition::jsonb - 'payload' #- '{target,config}')::text END,
       (SELECT n.created_at FROM job_version n
        WHERE n.partition = $1 AND n.job_id = $2 AND n.version = v.version + 1 AND n.created_at >= $5)
FROM job_version v
WHERE v.partition = $1 AND v.job_id = $2 AND v.namespace_id = $3 AND (v.created_at < $5 OR v.version = 1)
  AND v.version >= coalesce((
      SELECT o.version FROM job_version o
      WHERE o.partition = $1 AND o.job_id = $2 AND o.created_at < $4
      ORDER BY o.version DESC LIMIT 1), 1)
ORDER BY v.version DESC LIMIT $6`

// readJob reads the job and its versions.
func (r *lifeReader) readJob(ctx context.Context) error {
	var batch pgx.Batch
	batch.Queue(selectJob+whereJob, r.partition, r.ID, r.namespace).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanJob)
		if err == nil && len(found) == 1 {
			j := &found[0]
			r.row, r.State, r.PausedUntil, r.PlanFrom = j, j.State, j.PausedUntil, j.planFrom
			r.NextDue = store.OrZero(j.next).UTC()
		}
		return err
	})
	args := []any{r.partition, r.ID, r.namespace, r.from, r.to, timeline.MaxVersions + 1}
	batch.Queue(lifeVersions, args...).Query(r.readVersions)
	if err := r.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if len(r.Versions) == 0 {
		return job.ErrNotFound
	}
	if len(r.Versions) > timeline.MaxVersions {
		r.Versions, r.definitions = r.Versions[1:], r.definitions[1:]
		r.known = r.Versions[0].From.Add(time.Microsecond)
	}
	if r.State != 0 {
		return nil
	}
	object := job.FormatJobID(r.ID)
	err := r.tx.QueryRow(ctx, lastAction, r.namespace, object, "job.delete").Scan(&r.DeletedAt, &r.deletedBy)
	if store.NoRows(err) {
		return nil
	}
	return err
}

func (r *lifeReader) readVersions(rows pgx.Rows) error {
	r.Versions, r.definitions = nil, nil
	v := ledger.Version{CursorGone: true} // until it is found
	var definition string
	var end *time.Time
	_, err := pgx.ForEachRow(rows, []any{&v.Number, &v.From, &v.By, &definition, &end}, func() error {
		var d job.Definition
		if err := json.Unmarshal([]byte(definition), &d); err != nil {
			return fmt.Errorf("read version %d: %w", v.Number, err)
		}
		if len(r.Versions) == 0 {
			r.Replaced = end != nil
		}
		v.From = v.From.UTC()
		r.Versions, r.definitions = append(r.Versions, v), append(r.definitions, d.WithDefaults())
		return nil
	})
	slices.Reverse(r.Versions)
	slices.Reverse(r.definitions)
	return err
}

// lifeCursors finds the cursors of schedules.
const lifeCursors = `
SELECT k.n, c.id, coalesce(c.problem, ''), c.created_at FROM unnest($3::bytea[]) WITH ORDINALITY AS k(key, n), LATERAL (
    SELECT id, problem, created_at FROM cursor WHERE partition = $1 AND namespace_id = $2 AND key = k.key LIMIT 1) c`

// lifeSkips reads the ranges of a cursor that begin in a window, and those that may reach into it, the newest first.
const lifeSkips = `
SELECT from_due, to_due, count, reason, coalesce(problem, '') FROM (
    (SELECT * FROM cursor_skip
     WHERE partition = $1 AND cursor_id = $2 AND from_due >= $3 AND from_due < $4 AND ` + planned + `
     ORDER BY from_due DESC LIMIT $5)
    UNION ALL
    (SELECT * FROM (
        SELECT * FROM cursor_skip
        WHERE partition = $1 AND cursor_id = $2 AND from_due < $3
        ORDER BY from_due DESC LIMIT $6) b
     WHERE to_due >= $3 AND ` + planned + `)) s
ORDER BY from_due DESC`

// readSkips reads what the cursors of the versions skipped for all their jobs.
func (r *lifeReader) readSkips(ctx context.Context) error {
	keys := make([][]byte, len(r.Versions))
	for i, d := range r.definitions {
		derived, err := derive(d, r.ID)
		if err != nil {
			continue // this version of Belfry cannot read it
		}
		r.Versions[i].Schedule, keys[i] = derived.own, derived.key
		r.Versions[i].OneOff = d.Schedule.At != ""
	}
	rows, err := r.tx.Query(ctx, lifeCursors, r.partition, r.namespace, keys)
	if err != nil {
		return err
	}
	cursors := make([]int64, len(keys))
	r.problems = make([]string, len(keys))
	var n, id int64
	var problem string
	var created time.Time
	if _, err := pgx.ForEachRow(rows, []any{&n, &id, &problem, &created}, func() error {
		v := &r.Versions[n-1]
		cursors[n-1], r.problems[n-1], v.CursorGone = id, problem, created.After(v.From)
		return nil
	}); err != nil {
		return err
	}
	known := map[int64]int{} // versions with the same cursor share its ranges
	for i, cursor := range cursors {
		if first, ok := known[cursor]; ok {
			r.Versions[i].Skips = r.Versions[first].Skips
			continue
		}
		if known[cursor] = i; cursor == 0 {
			continue
		}
		if err := r.readCursor(ctx, cursor, &r.Versions[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *lifeReader) readCursor(ctx context.Context, cursor int64, v *ledger.Version) error {
	rows, err := r.tx.Query(ctx, lifeSkips, r.partition, cursor, r.from, r.to, timeline.MaxSkips+1, timeline.ReachingIn)
	if err != nil {
		return err
	}
	var s job.Skip
	_, err = pgx.ForEachRow(rows, []any{&s.From, &s.To, &s.Count, &s.Reason, &s.Problem}, func() error {
		v.Skips = append(v.Skips, s)
		return nil
	})
	if len(v.Skips) > timeline.MaxSkips { // what begins before the last of them may not have been read
		r.known = store.Later(r.known, v.Skips[timeline.MaxSkips].To.Add(time.Microsecond))
	}
	return err
}
