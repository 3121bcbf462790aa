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
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// lanes lists the lanes that a statement is given.
const lanes = `
l AS MATERIALIZED (SELECT unnest($1::integer[]) AS queue_id, unnest($2::text[]) AS handler, unnest($3::smallint[]) AS priority, unnest($4::timestamptz[]) AS mark,
    generate_subscripts($1::integer[], 1) - 1 AS n)`

// inLane is the runs of a lane from its mark on: one range of the index run_feed.
const inLane = `r.handler IS NOT NULL AND r.queue_id = l.queue_id AND r.handler = l.handler AND r.priority = l.priority AND r.run_at >= l.mark`

// dueRuns are the first runs of each lane whose time has come, or will soon.
const dueRuns = `
WITH` + lanes + `
SELECT l.n, x.* FROM l, LATERAL (
    SELECT r.partition, r.job_id, r.due_at, r.seq, r.run_at, r.admit FROM run r
    WHERE ` + inLane + ` AND r.run_at <= now() + $6::interval AND r.state = 0
    ORDER BY r.run_at LIMIT $5) x`

// nextRuns are the first runs of each lane, of those that are due soon too.
const nextRuns = `
WITH` + lanes + `
SELECT l.n, x.* FROM l, LATERAL (
    SELECT r.partition, r.job_id, r.due_at, r.seq, r.run_at, now() FROM run r
    WHERE ` + inLane + ` AND r.run_at <= now() + $6::interval AND r.state = 0
    ORDER BY r.run_at LIMIT $5) x`

// lockDue locks those of the given runs that are still pending and due. See claimRuns
// for its form. It returns the size of a payload without reading it. IS NOT DISTINCT FROM
// keeps PostgreSQL from the index run_feed, which it would read whole for each key.
const lockDue = `
WITH w AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at, unnest($4::smallint[]) AS seq,
           unnest($5::text[]) AS handler, generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT w.n, x.address, x.queue_id, x.key, x.most, coalesce(x.size, (SELECT octet_length(payload) FROM job WHERE partition = w.partition AND id = w.job_id), 0)
FROM w, LATERAL (
    SELECT r.ctid::text AS address, r.queue_id, coalesce(r.concurrency_key, 0) AS key, coalesce(r.concurrency_max, 1) AS most, octet_length(r.payload) AS size FROM run r
    WHERE r.partition = w.partition AND r.job_id = w.job_id AND r.due_at = w.due_at AND r.seq = w.seq
      AND r.state = 0 AND r.run_at <= now() AND r.handler IS NOT DISTINCT FROM w.handler AND r.queue_id IS NOT DISTINCT FROM $6
      AND (r.admit = 0 OR r.admit = 1 AND NOT EXISTS (
          SELECT FROM run o WHERE o.partition = w.partition AND o.job_id = w.job_id AND o.state <> 0))
    LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x`

// startDue starts runs that are locked, so that their addresses hold, each for its
// session.
const startDue = `
WITH p AS MATERIALIZED (
    SELECT unnest($1::text[])::tid AS address, unnest($2::uuid[]) AS session_id, unnest($3::bigint[]) AS queue_permit,
        unnest($4::bigint[]) AS key_permit
), claimed AS (
    UPDATE run r SET state = 1, attempt = r.attempt + 1, session_id = p.session_id, claimed_at = now(),
        queue_permit = p.queue_permit, key_permit = p.key_permit
    FROM p WHERE r.ctid = p.address
    RETURNING r.partition, r.job_id, r.due_at, r.seq, r.attempt, r.version, r.origin, r.run_at, r.payload, r.session_id, r.handler, r.claimed_at, r.idempotency_key
)
SELECT c.partition, c.job_id, c.due_at, c.seq, c.attempt, c.version, c.origin, c.run_at, c.session_id, c.handler, c.claimed_at,
       j.namespace_id, j.timeout_ms, j.name, coalesce(c.payload, j.payload, ''), coalesce(c.idempotency_key, ''), ` + forExpressions + `
FROM claimed c, LATERAL (SELECT * FROM job WHERE partition = c.partition AND id = c.job_id LIMIT 1) j`

// lockOfQueue is the number of the advisory lock of those who claim runs of a
// queue for workers. Those of sessions are random numbers of 64 bits.
func lockOfQueue(queue int32) int64 { return 0x62656c66_00000000 | int64(uint32(queue)) }

// beginClaim takes the locks of a claim: that of the queue, so that no other run
// of a job can be started meanwhile, and those of the sessions, so that none of
// them ends meanwhile and leaves its runs behind.
const beginClaim = `SELECT pg_advisory_xact_lock_shared(l) FROM (SELECT DISTINCT l FROM unnest($1::bigint[]) l ORDER BY l) o`

// ClaimDue claims runs of a queue that are due for the workers that wait for
// some, in one transaction: job.Assign says who gets which. Runs that need a
// decision are returned, to be asked about one by one: see AdmitDue.
func (e *Engine) ClaimDue(ctx context.Context, o job.PullClaimParams) (out job.PullClaimResult, err error) {
	err = e.db.Tx(ctx, "claim for workers", func(tx pgx.Tx) error {
		out = job.PullClaimResult{Marks: make([]time.Time, len(o.Feeds))}
		due, err := readDue(ctx, tx, &o, &out)
		if err != nil || out.Paused {
			return err
		}
		var plain []job.Assignment
		for _, d := range job.Assign(due, o.Polls) {
			switch {
			case d.Admit == job.AdmitByPolicy:
				out.Undecided = append(out.Undecided, d)
			case len(plain) < maxPlaces:
				plain = append(plain, d)
			}
		}
		if len(plain) > 0 {
			if err := e.claimDealt(ctx, tx, &o, plain, &out); err != nil {
				return err
			}
		}
		markLeft(due, &out)
		return nil
	})
	return out, err
}

// markLeft keeps the marks before what is still to be had.
func markLeft(due []job.Due, out *job.PullClaimResult) {
	gone := make(map[job.RunKey]bool, len(due))
	for _, c := range out.Claimed {
		gone[c.Key.RunKey()] = true
	}
	for _, d := range out.Undecided {
		gone[d.Key.RunKey()] = true
	}
	for _, r := range out.Refused { // by a key: kept apart, so that it keeps nobody behind it
		gone[r.Key.RunKey()] = r.Refusal.Limit.Kind == job.LimitKey
	}
	for _, d := range due {
		if gone[d.Key.RunKey()] {
			continue
		}
		if d.RunAt.Before(out.Marks[d.Feed]) {
			out.Marks[d.Feed] = d.RunAt
		}
	}
}

// readDue locks the queue and reads the candidates, in the order in which they
// are to start.
func readDue(ctx context.Context, tx pgx.Tx, o *job.PullClaimParams, out *job.PullClaimResult) (due []job.Due, err error) {
	locks := make([]int64, len(o.Polls))
	for i, seeker := range o.Polls {
		locks[i] = lockOf(seeker.Session)
	}
	l := splitLanes(o.Feeds)
	var batch pgx.Batch // one round trip; each statement sees what is committed when it begins
	batch.Queue(`SELECT pg_advisory_xact_lock($1), `+string(pool.KeyLookups), lockOfQueue(o.Queue))
	batch.Queue(beginClaim, locks)
	batch.Queue(`SELECT now(), coalesce(bool_or(paused), true), coalesce(bool_or(limited), false) FROM queue WHERE id = $1`, o.Queue).QueryRow(func(row pgx.Row) error {
		return row.Scan(&out.Now, &out.Paused, &out.Limited)
	})
	batch.Queue(livePolls, sessionIDs(o.Polls), o.Queue).Query(func(rows pgx.Rows) error {
		return dropExpired(rows, o, out)
	})
	batch.Queue(dueRuns, l.queue, l.handler, l.priority, l.mark, o.Limit, o.Ahead).Query(func(rows pgx.Rows) error {
		due, err = collectDue(rows, o, out)
		return err
	})
	return due, tx.SendBatch(ctx, &batch).Close()
}

// livePolls are the sessions that may be given a run: not those that are about
// to end, for the run would be lost at once.
const livePolls = `SELECT id FROM session WHERE id = ANY ($1) AND queue_id = $2 AND expires_at > now() + interval '1 s'`

// dropExpired gives nothing to sessions that are over.
func dropExpired(rows pgx.Rows, o *job.PullClaimParams, out *job.PullClaimResult) error {
	alive := make(map[uuid.UUID]bool, len(o.Polls))
	var id uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{raw(&id)}, func() error {
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

// collectDue reads candidates and moves the marks: a lane that has fewer than
// were asked for is known up to now, another one up to the last of them.
func collectDue(rows pgx.Rows, o *job.PullClaimParams, out *job.PullClaimResult) (due []job.Due, err error) {
	counts := make([]int, len(o.Feeds))
	for i := range out.Marks {
		out.Marks[i] = out.Now
	}
	var n int
	var d job.Due
	_, err = pgx.ForEachRow(rows, []any{&n, &d.Partition, raw(&d.Job), &d.DueAt, &d.Seq, &d.RunAt, &d.Admit}, func() error {
		d.Handler, d.Priority, d.Feed = o.Feeds[n].Handler, o.Feeds[n].Priority, n
		if d.RunAt.After(out.Now) {
			if out.Next.IsZero() || d.RunAt.Before(out.Next) {
				out.Next = d.RunAt
			}
			return nil
		}
		if counts[n]++; counts[n] == o.Limit {
			out.Marks[n] = d.RunAt
		}
		if o.Skip == nil || !o.Skip(d.Key) {
			due = append(due, d)
		}
		return nil
	})
	slices.SortStableFunc(due, func(a, b job.Due) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt))
	})
	return due, err
}

// starting are runs that are about to be started.
type starting struct {
	dealt     []job.Assignment
	addresses []string
	orders    []permitCandidate
	places    []place
	later     map[job.RunKey]bool // those that are too much for one claim
}

func (e *Engine) claimDealt(ctx context.Context, tx pgx.Tx, o *job.PullClaimParams, dealt []job.Assignment, out *job.PullClaimResult) error {
	all, err := lockDealt(ctx, tx, o.Queue, dealt)
	if err != nil {
		return err
	}
	if len(all.dealt) > 0 {
		if all.places, err = e.placesFor(ctx, tx, all, out); err != nil {
			return err
		}
		if err := startDealt(ctx, tx, o, all, out); err != nil {
			return err
		}
	}
	out.Undecided = append(out.Undecided, left(dealt, out, all.later)...)
	return keepKeys(ctx, tx, out.Claimed)
}

func lockDealt(ctx context.Context, tx pgx.Tx, queue int32, dealt []job.Assignment) (all starting, err error) {
	keys, handlers := make([]job.Key, len(dealt)), make([]string, len(dealt))
	for i, d := range dealt {
		keys[i], handlers[i] = d.Key, d.Handler
	}
	k := splitKeys(keys)
	rows, err := tx.Query(ctx, lockDue, k.partition, k.job, k.dueAt, k.seq, handlers, queue)
	if err != nil {
		return all, err
	}
	var n, size, total int
	var address string
	var p permitCandidate
	all.later = map[job.RunKey]bool{}
	_, err = pgx.ForEachRow(rows, []any{&n, &address, &p.Queue, &p.Key, &p.KeyMax, &size}, func() error {
		d := dealt[n]
		// None after it either, though it be small: the large ones would be last for ever.
		if total += size; total > job.MaxClaimBytes && len(all.dealt) > 0 {
			all.later[d.Key.RunKey()] = true
			return nil
		}
		p.Priority, p.RunAt, p.key = d.Priority, d.RunAt, d.Key
		all.dealt, all.addresses, all.orders = append(all.dealt, d), append(all.addresses, address), append(all.orders, p)
		return nil
	})
	return all, err
}

// placesFor takes a place for each run under the limits that it falls under. Where
// nothing is limited it asks nobody.
func (e *Engine) placesFor(ctx context.Context, tx pgx.Tx, all starting, out *job.PullClaimResult) ([]place, error) {
	limited := out.Limited
	for _, o := range all.orders {
		limited = limited || o.Key != 0
	}
	if !limited {
		return make([]place, len(all.orders)), nil
	}
	// What waits on nodes is of no session here: each of them may be ahead.
	return e.takePlaces(ctx, tx, uuid.Nil, all.orders)
}

func startDealt(ctx context.Context, tx pgx.Tx, o *job.PullClaimParams, all starting, out *job.PullClaimResult) error {
	places := all.places
	var addresses []string
	var sessions pgtype.FlatArray[pgtype.UUID]
	var queueHold, keyHold []*int64
	for i, d := range all.dealt {
		if !places[i].granted() {
			out.Refused = append(out.Refused, job.RefusedRun{Due: d.Due, Refusal: places[i].Refusal})
			continue
		}
		addresses, queueHold, keyHold = append(addresses, all.addresses[i]), append(queueHold, places[i].queueHold), append(keyHold, places[i].keyHold)
		sessions = append(sessions, pgtype.UUID{Bytes: o.Polls[d.Poll].Session, Valid: true})
	}
	if len(addresses) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, startDue, addresses, sessions, queueHold, keyHold)
	if err != nil {
		return err
	}
	c := job.Claimed{Attempt: job.Attempt{Kind: job.WorkerKind}}
	var timeout int64
	var policy string
	_, err = pgx.ForEachRow(rows, []any{
		&c.Key.Partition, raw(&c.Key.Job), &c.Key.DueAt, &c.Key.Seq, &c.Number, &c.Version, &c.Origin, &c.RunAt, raw(&c.Session), &c.Handler, &c.ClaimedAt,
		raw(&c.Namespace), &timeout, &c.JobName, &c.Payload, &c.OwnKey, &policy, &c.About,
	}, func() error {
		c.Timeout, c.KeyExpression = time.Duration(timeout)*time.Millisecond, keyExpression(policy)
		out.Claimed = append(out.Claimed, c)
		return nil
	})
	return err
}

// keepKeys keeps the idempotency keys that the first attempt makes. One that
// cannot be made is for who hands the run out to find.
func keepKeys(ctx context.Context, tx pgx.Tx, claimed []job.Claimed) error {
	var batch pgx.Batch
	for i := range claimed {
		c := &claimed[i]
		if c.KeyExpression != "" && c.OwnKey == "" && c.MakeKey() == nil {
			batch.Queue(keepKey, c.Key.Partition, c.Key.Job, c.Key.DueAt, c.Key.Seq, c.OwnKey)
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// left are those that need a decision after all: another run of the job is live.
// Those that are gone are found out about then.
func left(dealt []job.Assignment, out *job.PullClaimResult, later map[job.RunKey]bool) (undecided []job.Assignment) {
	has := maps.Clone(later)
	for _, c := range out.Claimed {
		has[c.Key.RunKey()] = true
	}
	for _, r := range out.Refused {
		has[r.Key.RunKey()] = true
	}
	for _, d := range dealt {
		if d.Admit != job.AdmitFreely && !has[d.Key.RunKey()] {
			undecided = append(undecided, d)
		}
	}
	return undecided
}

// AdmitDue decides about one run that ClaimDue left, for a session: see Admit.
func (e *Engine) AdmitDue(ctx context.Context, queue int32, session uuid.UUID, due job.Due) (claimed *job.Claimed, done bool, err error) {
	err = e.db.Tx(ctx, "admit for a worker", func(tx pgx.Tx) error {
		var paused bool
		var batch pgx.Batch
		batch.Queue(`SELECT pg_advisory_xact_lock($1), `+string(pool.KeyLookups), lockOfQueue(queue))
		batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, lockOf(session))
		batch.Queue(`SELECT coalesce((SELECT paused FROM queue WHERE id = $1), true)`, queue).QueryRow(func(row pgx.Row) error { return row.Scan(&paused) })
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		claimed, done = nil, false
		if paused {
			return nil
		}
		a := admission{tx: tx, query: admissiblePulled, attempt: job.Claimed{Attempt: job.Attempt{Key: due.Key, Session: session}}}
		if err := a.read(ctx, 0); err != nil {
			done = noRows(err)
			return ignoreNoRows(err)
		}
		if done = a.attempt.Handler != due.Handler; done { // its job was changed: a look finds it where it is now
			return nil
		}
		if err := e.admit(ctx, &a); err != nil {
			return err
		}
		if done = a.out.Done; a.out.Attempt == nil {
			return nil
		}
		one := []job.Claimed{a.attempt}
		claimed = &one[0]
		return keepKeys(ctx, tx, one)
	})
	if errors.Is(err, errNoPlace) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return claimed, done, nil
}

func ignoreNoRows(err error) error {
	if noRows(err) {
		return nil
	}
	return err
}

// LookDue finds when each lane has its first run, if one is due by ahead from
// now. Limit is how many of a lane are looked at to find one that is not
// skipped. It takes no lock.
func (e *Engine) LookDue(ctx context.Context, look []job.Feed, o job.PollParams) (now time.Time, first []time.Time, err error) {
	first = make([]time.Time, len(look))
	l := splitLanes(look)
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(`SELECT now() FROM (SELECT ` + string(pool.KeyLookups) + ` OFFSET 0) s`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	batch.Queue(nextRuns, l.queue, l.handler, l.priority, l.mark, o.Limit, o.Ahead).Query(func(rows pgx.Rows) error {
		var n int
		var k job.Key
		var at time.Time
		_, err := pgx.ForEachRow(rows, []any{&n, &k.Partition, raw(&k.Job), &k.DueAt, &k.Seq, &at, &now}, func() error {
			if first[n].IsZero() && (o.Skip == nil || !o.Skip(k)) {
				first[n] = at
			}
			return nil
		})
		return err
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return now, nil, fmt.Errorf("look for due runs: %w", err)
	}
	return now, first, nil
}

// laneColumns are lanes as the arrays that statements take.
type laneColumns struct {
	queue    []int32
	handler  []string
	priority []int16
	mark     []time.Time
}

func splitLanes(in []job.Feed) (l laneColumns) {
	for _, lane := range in {
		l.queue, l.handler = append(l.queue, lane.Queue), append(l.handler, lane.Handler)
		l.priority, l.mark = append(l.priority, lane.Priority), append(l.mark, lane.Mark)
	}
	return l
}
