package finish

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// ReportRun completes an attempt that a target has accepted with the outcome that the target reports. The report may
// arrive before the node has read the target's 202, so the attempt may still be running.
func (s *Store) ReportRun(ctx context.Context, r access.Report, o job.Outcome) error {
	if err := s.checkReport(ctx, r); err != nil {
		return fmt.Errorf("report on a run: %w", err)
	}
	d, err := s.Write(ctx, store.AsReporter(r.Namespace), []job.Completion{
		{Key: r.Key, Session: r.Session, Attempt: r.Attempt, Outcome: o},
	})
	if err != nil {
		return err
	}
	if d.fenced > 0 {
		return fmt.Errorf("report on a run: %w", job.ErrStale)
	}
	return nil
}

// ReportedTarget returns the target of the live run that a report is about, or ErrNotFound.
func (s *Store) ReportedTarget(ctx context.Context, r access.Report) (of job.Target, err error) {
	var text string
	k := r.Key
	err = s.namespaced.Query(ctx, store.In(r.Namespace, store.KeyLookups), func(rows pgx.Rows) error {
		text, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		return err
	}, `SELECT v.definition
FROM run r JOIN job_version v ON v.partition = r.partition AND v.job_id = r.job_id AND v.version = r.version
WHERE r.partition = $1 AND r.job_id = $2 AND r.due_at = $3 AND r.seq = $4`, k.Partition, k.Job, k.DueAt, k.Seq)
	if store.NoRows(err) {
		return of, job.ErrNotFound
	}
	var d job.Definition
	if err == nil {
		err = json.Unmarshal([]byte(text), &d)
	}
	if err != nil {
		return of, fmt.Errorf("read the target of a run: %w", err)
	}
	return d.Target, nil
}

func (s *Store) checkReport(ctx context.Context, r access.Report) error {
	return s.namespaced.Query(ctx, store.In(r.Namespace), func(rows pgx.Rows) error {
		expired, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
		if err == nil && expired {
			err = access.ErrReportExpired
		}
		return err
	}, `SELECT belfry_clock() > $1`, r.Until)
}

const reportedRun = `
SELECT r.state, belfry_clock(), j.policy
FROM run r LEFT JOIN job j ON j.partition = r.partition AND j.id = r.job_id
WHERE r.partition = $1 AND r.job_id = $2 AND r.due_at = $3 AND r.seq = $4 AND r.attempt = $5
  AND r.session_id = $6 AND r.state <> 0 /* live */
FOR UPDATE OF r`

// HeartbeatRun extends the time that a target has for an attempt that it has accepted. It returns when the next
// heartbeat, or the report, has to arrive.
func (s *Store) HeartbeatRun(ctx context.Context, r access.Report) (by time.Time, err error) {
	err = s.db.Tx(ctx, "heartbeat of a run", func(tx pgx.Tx) error {
		if err := store.Enter(ctx, tx, store.In(r.Namespace, store.KeyLookups)); err != nil {
			return err
		}
		var state job.RunState
		var now time.Time
		var text *string
		k := r.Key
		err := tx.QueryRow(ctx, reportedRun, k.Partition, k.Job, k.DueAt, k.Seq, r.Attempt, r.Session).
			Scan(&state, &now, &text)
		switch {
		case store.NoRows(err):
			return job.ErrStale
		case err != nil:
			return err
		case now.After(r.Until):
			return access.ErrReportExpired
		}
		by = now.Add(time.Duration(job.ReadPolicy(text).ReportTimeout)).UTC()
		if by.After(r.Until) {
			by = r.Until
		}
		if state != job.Waiting { // the 202 has not been read yet, and will set the time
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE run SET expires_at = $5 WHERE `+store.ByKey, k.Partition, k.Job, k.DueAt, k.Seq, by)
		return err
	})
	return by, err
}
