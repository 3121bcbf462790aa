package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/start"
	"github.com/belfry-dev/belfry/internal/store"
)

var pullDue = statement("pull_due")

// lockOfQueue is the number of the advisory lock under which runs of a queue are
// claimed for workers. The locks of sessions are random 64-bit numbers.
func lockOfQueue(queue int32) int64 { return 0x62656c66_00000000 | int64(uint32(queue)) }

// beginClaim takes the locks of a claim: that of the queue, so that no other run
// of a job can be started meanwhile, and those of the sessions, so that none of
// them ends meanwhile and leaves its runs behind.
const beginClaim = `
SELECT pg_advisory_xact_lock_shared(l) FROM (SELECT DISTINCT l FROM unnest($1::bigint[]) l ORDER BY l) o`

const queueState = `
SELECT now(), coalesce(bool_or(paused), true) OR NOT belfry_clock_trusted() FROM queue WHERE id = $1`

// PullClaim claims due runs of a queue for the workers that wait for them, in one
// transaction. job.Assign decides which worker gets which run. Runs that have to be
// decided alone are returned for PullAdmit.
func (e *Engine) PullClaim(ctx context.Context, o job.PullClaimParams) (out job.PullClaimResult, err error) {
	err = e.db.Tx(ctx, "claim for workers", func(tx pgx.Tx) error {
		out = job.PullClaimResult{Marks: make([]time.Time, len(o.Feeds))}
		due, err := readDue(ctx, tx, &o, &out)
		if err != nil || out.Paused {
			return err
		}
		assigned := job.Assign(due, o.Polls)
		err = e.startAssigned(ctx, tx, &o, assigned[:min(len(assigned), start.MaxRuns)], &out)
		markLeft(due, &out)
		return err
	})
	if err == nil {
		err = e.ReadContents(ctx, store.AsWorker(o.Namespace, o.Queue), attemptsOf(out.Claimed))
	}
	return out, err
}

func attemptsOf(claimed []job.Claimed) []*job.Attempt {
	out := make([]*job.Attempt, len(claimed))
	for i := range claimed {
		out[i] = &claimed[i].Attempt
	}
	return out
}

// markLeft keeps the low-water marks before runs that are still free.
func markLeft(due []job.Due, out *job.PullClaimResult) {
	gone := make(map[job.RunKey]bool, len(due))
	for _, c := range out.Claimed {
		gone[c.Key.RunKey()] = true
	}
	for _, d := range out.Undecided {
		gone[d.RunKey()] = true
	}
	for _, d := range out.Waiting {
		gone[d.RunKey()] = true
	}
	for _, r := range out.Refused { // a run that its key blocks does not block those behind it
		gone[r.RunKey()] = r.Refusal.Limit.Kind == job.LimitKey
	}
	for _, d := range due {
		if gone[d.RunKey()] {
			continue
		}
		if d.RunAt.Before(out.Marks[d.Feed]) {
			out.Marks[d.Feed] = d.RunAt
		}
	}
}

// readDue locks the queue and reads the candidates, in the order in which they
// are to start.
func readDue(
	ctx context.Context, tx pgx.Tx, o *job.PullClaimParams, out *job.PullClaimResult,
) (due []job.Due, err error) {
	locks := make([]int64, len(o.Polls))
	for i, seeker := range o.Polls {
		locks[i] = store.SessionLock(seeker.Session)
	}
	l := splitFeeds(o.Feeds)
	var batch pgx.Batch // one round trip; each statement sees what is committed when it begins
	store.AsWorker(o.Namespace, o.Queue)(&batch)
	batch.Queue(`SELECT pg_advisory_xact_lock($1)`, lockOfQueue(o.Queue))
	batch.Queue(beginClaim, locks)
	batch.Queue(queueState, o.Queue).QueryRow(func(row pgx.Row) error {
		return row.Scan(&out.Now, &out.Paused)
	})
	batch.Queue(livePolls, sessionIDs(o.Polls), o.Queue).Query(func(rows pgx.Rows) error {
		return dropExpired(rows, o, out)
	})
	batch.Queue(pullDue, l.queue, l.handler, l.priority, l.mark, o.Limit, o.Ahead).Query(func(rows pgx.Rows) error {
		due, err = collectDue(rows, o, out)
		return err
	})
	return due, tx.SendBatch(ctx, &batch).Close()
}

// livePolls are the sessions that may get a run. A session that is about to end may
// not: the run would be lost immediately. No session ends by a clock that is in doubt.
const livePolls = `
SELECT id FROM session
WHERE id = ANY ($1) AND queue_id = $2 AND (expires_at > now() + interval '1 s' OR NOT belfry_clock_trusted())`

// dropExpired gives no runs to sessions that have ended.
func dropExpired(rows pgx.Rows, o *job.PullClaimParams, out *job.PullClaimResult) error {
	alive := make(map[uuid.UUID]bool, len(o.Polls))
	var id uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{store.Raw(&id)}, func() error {
		alive[id] = true
		return nil
	})
	o.Polls = slices.Clone(o.Polls)
	for i := range o.Polls {
		if !alive[o.Polls[i].Session] {
			out.Expired = append(out.Expired, o.Polls[i].Session)
			o.Polls[i].Max = 0
		}
	}
	return err
}

func sessionIDs(polls []job.Poll) pgtype.FlatArray[pgtype.UUID] {
	out := make(pgtype.FlatArray[pgtype.UUID], len(polls))
	for i, s := range polls {
		out[i] = pgtype.UUID{Bytes: s.Session, Valid: true}
	}
	return out
}

// collectDue reads candidates and moves the low-water marks. A feed with fewer runs
// than the limit is known up to now, any other one up to its last run.
func collectDue(rows pgx.Rows, o *job.PullClaimParams, out *job.PullClaimResult) (due []job.Due, err error) {
	counts := make([]int, len(o.Feeds))
	for i := range out.Marks {
		out.Marks[i] = out.Now
	}
	err = forEachDue(rows, func(n int, d job.Due) {
		d.Handler, d.Priority, d.Feed = o.Feeds[n].Handler, o.Feeds[n].Priority, n
		if d.RunAt.After(out.Now) {
			if out.Next.IsZero() || d.RunAt.Before(out.Next) {
				out.Next = d.RunAt
			}
			return
		}
		if counts[n]++; counts[n] == o.Limit {
			out.Marks[n] = d.RunAt
		}
		switch {
		case o.Skip != nil && o.Skip(d.Key):
		case o.Waits != nil && o.Waits(d):
			refusal := job.Refusal{Limit: d.KeyLimit, KeyMax: d.KeyMax}
			out.Refused = append(out.Refused, job.RefusedRun{Due: d, Refusal: refusal})
		default:
			due = append(due, d)
		}
	})
	slices.SortStableFunc(due, func(a, b job.Due) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt))
	})
	return due, err
}

// startAssigned starts the runs that their policies and limits let start.
func (e *Engine) startAssigned(
	ctx context.Context, tx pgx.Tx, o *job.PullClaimParams, assigned []job.Assignment, out *job.PullClaimResult,
) error {
	if len(assigned) == 0 {
		return nil
	}
	wanted := make([]start.Wanted, len(assigned))
	for i, a := range assigned {
		wanted[i] = start.Wanted{Key: a.Key, Handler: a.Handler, Session: o.Polls[a.Poll].Session}
	}
	admitted, err := e.AdmitFor(ctx, tx, o.Queue, wanted, false)
	for i, a := range admitted {
		switch due := assigned[i].Due; {
		case a.Claimed != nil:
			out.Claimed = append(out.Claimed, *a.Claimed)
		case a.Refusal != (job.Refusal{}):
			out.Refused = append(out.Refused, job.RefusedRun{Due: due, Refusal: a.Refusal})
		case a.Alone:
			out.Undecided = append(out.Undecided, due)
		case a.Skipped:
			out.Skipped++
		case !a.Done:
			out.Waiting = append(out.Waiting, due)
		}
	}
	return err
}

// PullAdmit is Admit for one run that PullClaim left, for a worker's session. A queue that is paused refuses it.
func (e *Engine) PullAdmit(
	ctx context.Context, namespace uuid.UUID, queue int32, session uuid.UUID, due job.Due,
) (out job.Admitted, err error) {
	err = e.db.Tx(ctx, "admit for a worker", func(tx pgx.Tx) error {
		var paused, alive bool
		var batch pgx.Batch
		store.AsWorker(namespace, queue)(&batch)
		batch.Queue(`SELECT pg_advisory_xact_lock($1)`, lockOfQueue(queue))
		batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, store.SessionLock(session))
		state := `SELECT coalesce((SELECT paused FROM queue WHERE id = $1), true),
EXISTS (SELECT FROM session WHERE id = $2 AND queue_id = $1 AND expires_at > now())`
		batch.Queue(state, queue, session).QueryRow(func(row pgx.Row) error { return row.Scan(&paused, &alive) })
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		switch out = (job.Admitted{}); {
		case paused:
			out.Refusal.Limit = job.QueueLimit(queue)
			return nil
		case !alive:
			out.Done = true
			return nil
		}
		wanted := []start.Wanted{{Key: due.Key, Handler: due.Handler, Session: session}}
		admitted, err := e.AdmitFor(ctx, tx, queue, wanted, true)
		out = admitted[0]
		return err
	})
	if errors.Is(err, start.ErrNoPermit) {
		return out, nil
	}
	if err == nil && out.Claimed != nil {
		err = e.ReadContents(ctx, store.AsWorker(namespace, queue), []*job.Attempt{&out.Claimed.Attempt})
	}
	if err != nil {
		return job.Admitted{}, err
	}
	return out, nil
}

func ignoreNoRows(err error) error {
	if store.NoRows(err) {
		return nil
	}
	return err
}

// ScanDue finds when each feed has its first run, if one is due by o.Ahead from
// now. o.Limit is how many runs of a feed it reads to find one that is not
// skipped. It takes no lock.
func (e *Engine) ScanDue(
	ctx context.Context, feeds []job.Feed, o job.ScanParams,
) (now time.Time, first []time.Time, err error) {
	first = make([]time.Time, len(feeds))
	f := splitFeeds(feeds)
	var batch pgx.Batch // one round trip, one transaction
	begin := `SELECT now() FROM (SELECT ` + string(store.KeyLookups) + ` OFFSET 0) s`
	batch.Queue(begin).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	batch.Queue(pullDue, f.queue, f.handler, f.priority, f.mark, o.Limit, o.Ahead).Query(func(rows pgx.Rows) error {
		return forEachDue(rows, func(n int, d job.Due) {
			if first[n].IsZero() && (o.Skip == nil || !o.Skip(d.Key)) {
				first[n] = d.RunAt
			}
		})
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return now, nil, fmt.Errorf("find due runs: %w", err)
	}
	return now, first, nil
}

// forEachDue reads what pull_due.sql returns: runs, with the index of their feed.
func forEachDue(rows pgx.Rows, each func(feed int, d job.Due)) error {
	var n int
	var d job.Due
	var key int64
	_, err := pgx.ForEachRow(rows, []any{
		&n, &d.Partition, store.Raw(&d.Job), &d.DueAt, &d.Seq, &d.RunAt, &d.Admit, &key, &d.KeyMax,
	}, func() error {
		if d.KeyLimit = (job.Limit{}); key != 0 {
			d.KeyLimit = job.KeyLimit(key)
		}
		each(n, d)
		return nil
	})
	return err
}

// feedColumns are feeds as the arrays that statements take.
type feedColumns struct {
	queue    []int32
	handler  []string
	priority []int16
	mark     []time.Time
}

func splitFeeds(feeds []job.Feed) (c feedColumns) {
	for _, f := range feeds {
		c.queue, c.handler = append(c.queue, f.Queue), append(c.handler, f.Handler)
		c.priority, c.mark = append(c.priority, f.Priority), append(c.mark, f.Mark)
	}
	return c
}
