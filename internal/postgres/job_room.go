package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
)

// errNoRoom says that users may add no more runs to a job. To users it is a conflict like others; operations wait.
var errNoRoom error = noRoomError{ErrConflict}

// errFull says that a namespace has job.MaxAdded runs.
var errFull error = noRoomError{errNoRoom}

// noRoomError is a conflict of its own.
type noRoomError struct{ error }

func (e noRoomError) Unwrap() error { return e.error }

// roomOfJobs returns how many runs users may add to the one of some jobs that may get the fewest, and how many it may
// have: $3 if they may overlap, else $4. A policy may be unreadable, so it is not parsed.
const roomOfJobs = `
SELECT j.most - (SELECT count(*) FROM (
           SELECT FROM run r WHERE r.partition = k.partition AND r.job_id = k.job_id LIMIT j.most) r) AS room, j.most
FROM (SELECT DISTINCT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id) k, LATERAL (
    SELECT CASE WHEN policy ~ '"overlap": ?"allow"' THEN $3::integer ELSE $4::integer END AS most
    FROM job WHERE partition = k.partition AND id = k.job_id LIMIT 1) j
ORDER BY room LIMIT 1`

// roomForRuns returns how many runs a user may add to each of the jobs of some keys, or errNoRoom if it is none. The
// caller has locked the jobs, so that no other user adds runs meanwhile, and leaves some to others.
func roomForRuns(ctx context.Context, tx pgx.Tx, leave int, keys ...job.Key) (room int, err error) {
	k, most := splitKeys(keys), 0
	err = tx.QueryRow(ctx, roomOfJobs, k.partition, k.job, job.MaxLive-leave, job.MaxLiveAlone-leave).Scan(&room, &most)
	switch {
	case noRows(err): // the jobs are deleted
		return job.MaxLive - leave, nil
	case err != nil:
		return 0, err
	case room > 0:
		return room, nil
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
		"wait until some have ended, or cancel those that are not needed (belfry run cancel)", errNoRoom, most, who, alone)
}

// waitForRoom lets an operation wait whose job may get no more runs.
func waitForRoom(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, o *activeOperation, why string,
) error {
	_, err := db.Exec(ctx, `UPDATE operation SET next_at = now() + interval '10 seconds', failures = 0, problem = $3
		WHERE id = $1 AND next_at = $2 AND state = 'running'`, o.ID, o.nextAt, why)
	return err
}
