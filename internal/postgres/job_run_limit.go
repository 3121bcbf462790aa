package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// errTooManyRuns says that users may add no more runs to a job. To users it is a conflict like others; operations wait.
var errTooManyRuns error = tooManyRunsError{job.ErrConflict}

// errFull says that a namespace has job.MaxNamespaceRuns.
var errFull error = tooManyRunsError{fmt.Errorf("%w: %s; wait until some have ended, or cancel those that are not needed "+
	"(belfry run cancel)", errTooManyRuns, job.TooManyLiveRuns)}

// tooManyRunsError is a conflict of its own.
type tooManyRunsError struct{ error }

func (e tooManyRunsError) Unwrap() error { return e.error }

// runsLeftToAdd returns how many runs users may add to the one of some jobs that may get the fewest, and how many it may
// have: $3 if they may overlap, else $4. A policy may be unreadable, so it is not parsed. It also returns whether their
// namespace is full.
const runsLeftToAdd = `
SELECT j.most - (SELECT count(*) FROM (
           SELECT FROM run r WHERE r.partition = k.partition AND r.job_id = k.job_id LIMIT j.most) r) AS left_to_add, j.most,
       EXISTS (SELECT FROM namespace_runs WHERE namespace_id = j.namespace_id AND ` + isFull + `)
FROM (SELECT DISTINCT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id) k, LATERAL (
    SELECT CASE WHEN policy ~ '"overlap": ?"allow"' THEN $3::integer ELSE $4::integer END AS most, namespace_id
    FROM job WHERE partition = k.partition AND id = k.job_id LIMIT 1) j
ORDER BY left_to_add LIMIT 1`

// runsToAdd returns how many runs a user may add to each of the jobs of some keys, which are of one namespace, or
// errTooManyRuns if it is none. The caller has locked the jobs, so that no other user adds runs meanwhile, and leaves some
// to others.
func runsToAdd(ctx context.Context, tx pgx.Tx, leave int, keys ...job.Key) (left int, err error) {
	k, most, full := store.SplitKeys(keys), 0, false
	row := tx.QueryRow(ctx, runsLeftToAdd, k.Partition, k.Job, job.MaxLive-leave, job.MaxLiveAlone-leave)
	err = row.Scan(&left, &most, &full)
	switch {
	case store.NoRows(err): // the jobs are deleted
		return job.MaxLive - leave, nil
	case err != nil:
		return 0, err
	case full:
		return 0, errFull
	case left > 0:
		return left, nil
	}
	alone := ""
	if most <= job.MaxLiveAlone {
		alone = " to a job whose runs may not overlap"
	}
	who := "users"
	if leave > 0 {
		who = "backfills"
	}
	return 0, fmt.Errorf("%w: the job has %d runs that have not ended, and %s may not add more%s; "+
		"wait until some have ended, or cancel those that are not needed (belfry run cancel)", errTooManyRuns, most, who, alone)
}

// waitForFewerRuns lets an operation wait whose job may get no more runs.
func waitForFewerRuns(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, o *activeOperation, why string,
) error {
	_, err := db.Exec(ctx, `UPDATE operation SET next_at = now() + interval '10 seconds', failures = 0, problem = $3
		WHERE id = $1 AND next_at = $2 AND state = 'running'`, o.ID, o.nextAt, why)
	return err
}
