package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	pullDue  = statement("pull_due")
	pullLock = statement("pull_lock")
)

// lockOfQueue is the number of the advisory lock under which runs of a queue are
// claimed for workers. The locks of sessions are random 64-bit numbers.
func lockOfQueue(queue int32) int64 { return 0x62656c66_00000000 | int64(uint32(queue)) }

// beginClaim takes the locks of a claim: that of the queue, so that no other run
// of a job can be started meanwhile, and those of the sessions, so that none of
// them ends meanwhile and leaves its runs behind.
const beginClaim = `
SELECT pg_advisory_xact_lock_shared(l) FROM (SELECT DISTINCT l FROM unnest($1::bigint[]) l ORDER BY l) o`

const queueState = `
SELECT now(), coalesce(bool_or(paused), true) OR NOT belfry_clock_trusted(), coalesce(bool_or(limited), false) FROM queue WHERE id = $1`

// PullClaim claims due runs of a queue for the workers that wait for them, in one
// transaction. job.Assign decides which worker gets which run. Runs that need a
// decision are returned for PullAdmit.
func (e *Engine) PullClaim(ctx context.Context, o job.PullClaimParams) (out job.PullClaimResult, err error) {
	err = e.db.Tx(ctx, "claim for workers", func(tx pgx.Tx) error {
		out = job.PullClaimResult{Marks: make([]time.Time, len(o.Feeds))}
		due, err := readDue(ctx, tx, &o, &out)
		if err != nil || out.Paused {
			return err
		}
		var plain []job.Assignment
		for _, d := range job.Assign(due, o.Polls) {
			if len(plain) < maxPermits {
				plain = append(plain, d)
			}
		}
		if len(plain) > 0 {
			if err := e.startAssigned(ctx, tx, &o, plain, &out); err != nil {
				return err
			}
		}
		markLeft(due, &out)
		return nil
	})
	if err == nil {
		err = e.readContents(ctx, store.AsWorker(o.Namespace, o.Queue), attemptsOf(out.Claimed))
	}
	return out, err
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
		return row.Scan(&out.Now, &out.Paused, &out.Limited)
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

// pullStart is assigned runs that are locked and about to start.
type pullStart struct {
	assigned  []job.Assignment
	addresses []string
	runs      []permitCandidate
	later     map[job.RunKey]bool // too many bytes for one claim
}

// startAssigned starts the runs that are still free and get their permits.
func (e *Engine) startAssigned(
	ctx context.Context, tx pgx.Tx, o *job.PullClaimParams, assigned []job.Assignment, out *job.PullClaimResult,
) error {
	p, err := lockAssigned(ctx, tx, o.Queue, assigned)
	if err != nil {
		return err
	}
	permits, err := e.permitsFor(ctx, tx, p.runs, out.Limited)
	if err != nil {
		return err
	}
	var s start
	for i, a := range p.assigned {
		if !permits[i].granted() {
			out.Refused = append(out.Refused, job.RefusedRun{Due: a.Due, Refusal: permits[i].Refusal})
			continue
		}
		s.add(p.addresses[i], o.Polls[a.Poll].Session, &p.runs[i], &permits[i])
	}
	if out.Claimed, err = s.run(ctx, tx); err != nil {
		return err
	}
	out.Undecided = append(out.Undecided, undecided(assigned, out, p.later)...)
	return nil
}

func lockAssigned(
	ctx context.Context, tx pgx.Tx, queue int32, assigned []job.Assignment,
) (p pullStart, err error) {
	keys, handlers := make([]job.Key, len(assigned)), make([]string, len(assigned))
	for i, a := range assigned {
		keys[i], handlers[i] = a.Key, a.Handler
	}
	k := store.SplitKeys(keys)
	rows, err := tx.Query(ctx, pullLock, k.Partition, k.Job, k.DueAt, k.Seq, handlers, queue)
	if err != nil {
		return p, err
	}
	var n, size, total int
	var address string
	var c permitCandidate
	p.later = map[job.RunKey]bool{}
	_, err = pgx.ForEachRow(rows, []any{&n, &address, &c.Queue, &c.Key, &c.KeyMax, &size}, func() error {
		a := assigned[n]
		// Once the bytes are used up, small runs wait too: otherwise large ones would always be last.
		if total += size; total > job.MaxClaimBytes && len(p.assigned) > 0 {
			p.later[a.RunKey()] = true
			return nil
		}
		c.Priority, c.RunAt, c.key = a.Priority, a.RunAt, a.Key
		p.assigned, p.runs = append(p.assigned, a), append(p.runs, c)
		p.addresses = append(p.addresses, address)
		return nil
	})
	return p, err
}

// permitsFor grants permits, or skips the question where nothing is limited.
func (e *Engine) permitsFor(
	ctx context.Context, tx pgx.Tx, runs []permitCandidate, queueLimited bool,
) ([]permit, error) {
	limited := queueLimited && len(runs) > 0
	for _, r := range runs {
		limited = limited || r.Key != 0
	}
	if !limited {
		return make([]permit, len(runs)), nil
	}
	// No node's waiters are this claim's own: each of them may be ahead.
	return e.grantPermits(ctx, tx, uuid.Nil, runs)
}

// undecided returns the runs that need a decision after all, because another run of
// their job is live. Admit finds out which of them are gone.
func undecided(
	assigned []job.Assignment, out *job.PullClaimResult, later map[job.RunKey]bool,
) (rest []job.Assignment) {
	has := maps.Clone(later)
	for _, c := range out.Claimed {
		has[c.Key.RunKey()] = true
	}
	for _, r := range out.Refused {
		has[r.RunKey()] = true
	}
	for _, a := range assigned {
		if a.Admit != job.AdmitFreely && !has[a.RunKey()] {
			rest = append(rest, a)
		}
	}
	return rest
}

// PullAdmit is Admit for one run that PullClaim left, for a worker's session. A queue that is paused refuses it.
func (e *Engine) PullAdmit(
	ctx context.Context, namespace uuid.UUID, queue int32, session uuid.UUID, due job.Due,
) (claimed *job.Claimed, out job.Admitted, err error) {
	err = e.db.Tx(ctx, "admit for a worker", func(tx pgx.Tx) error {
		var paused bool
		var batch pgx.Batch
		store.AsWorker(namespace, queue)(&batch)
		batch.Queue(`SELECT pg_advisory_xact_lock($1)`, lockOfQueue(queue))
		batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, store.SessionLock(session))
		isPaused := `SELECT coalesce((SELECT paused FROM queue WHERE id = $1), true)`
		batch.Queue(isPaused, queue).QueryRow(func(row pgx.Row) error { return row.Scan(&paused) })
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		claimed, out = nil, job.Admitted{}
		if paused {
			out.Refusal.Limit = job.QueueLimit(queue)
			return nil
		}
		a := &admission{key: due.Key}
		one := admissions{tx: tx, session: session, pulled: true, runs: []*admission{a}}
		if err := one.read(ctx, 0); err != nil {
			return err
		}
		if !a.found || a.handler != due.Handler { // its job was edited: a scan finds it where it is now
			out.Done = true
			return nil
		}
		err := e.admit(ctx, &one)
		claimed, out = a.started, a.out
		return err
	})
	if errors.Is(err, errNoPermit) {
		return nil, out, nil
	}
	if err == nil && claimed != nil {
		one := []job.Claimed{*claimed}
		claimed, err = &one[0], e.readContents(ctx, store.AsWorker(namespace, queue), attemptsOf(one))
	}
	if err != nil {
		return nil, job.Admitted{}, err
	}
	return claimed, out, nil
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
