package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

// OpenSession creates a session for a worker, and its queue if the params say so. A session that is adopted must belong
// to the same namespace and queue. gone lists the named runs that the old session no longer has.
func (e *Engine) OpenSession(
	ctx context.Context, o job.SessionParams,
) (w job.WorkerSession, gone []job.Gone, err error) {
	if err := o.Validate(); err != nil {
		return w, nil, fmt.Errorf("open a session: %w", err)
	}
	w = job.WorkerSession{ID: uuid.New(), Namespace: o.Namespace, QueueName: o.Queue, Name: o.Name}
	err = e.api.db.Tx(ctx, store.In(o.Namespace), "open a session", func(tx pgx.Tx) error {
		if o.Adopt == uuid.Nil { // before the queue, whose id would be used up
			if err := e.sessions.mayOpen(ctx, tx, o.Namespace, false); err != nil {
				return err
			}
		}
		var created bool
		if w.Queue, created, err = queueOf(ctx, tx, o); err != nil {
			return err
		}
		if o.Adopt == uuid.Nil {
			row := tx.QueryRow(ctx, insertSession, w.ID, w.Name, o.TTL, w.Namespace, w.Queue, o.Slots)
			if err := row.Scan(&w.ExpiresAt); err != nil {
				return err
			}
		}
		if !created {
			return nil
		}
		err := e.api.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "queue.create", o.Queue}, struct {
			Worker string `json:"worker"`
		}{o.Name})
		if err != nil {
			return err
		}
		return additions{access.CapQueues: 1}.check(ctx, tx, o.Namespace)
	})
	if err != nil || o.Adopt == uuid.Nil {
		return w, nil, err
	}
	copy(w.ID[:familyBytes], o.Adopt[:familyBytes])
	gone, err = e.adoptRuns(ctx, &w, o)
	return w, gone, err
}

// insertSession opens a session, if mayOpen allows it.
const insertSession = `
INSERT INTO session (id, name, started_at, expires_at, may_own, namespace_id, queue_id, slots)
VALUES ($1, $2, now(), now() + $3::interval, false, $4, $5, nullif($6::integer, 0))
RETURNING expires_at`

// familyBytes is how many bytes of its id a session shares with the session that it adopts, so that the sessions of one
// worker are a range of ids. A worker that gets no reply retries with the session that it knows, but its runs may
// already be leased to a newer session that it does not know. So the whole family is adopted. The other bytes are
// random and select the lock: see store.SessionLock.
const familyBytes = 8

// family returns the first and the last id of a session's family.
func family(id uuid.UUID) (first, last uuid.UUID) {
	first, last = id, id
	for i := familyBytes; i < len(id); i++ {
		first[i], last[i] = 0, 0xff
	}
	return first, last
}

// lockFamilyOf returns the lock under which the sessions of a family are opened one after the other. A client may
// choose the two numbers. No other lock uses a pair.
func lockFamilyOf(id uuid.UUID) (int32, int32) {
	return int32(binary.BigEndian.Uint32(id[:4])), int32(binary.BigEndian.Uint32(id[4:familyBytes]))
}

// queueOf finds the queue of a session. It creates the queue only if the caller's key allows that.
func queueOf(ctx context.Context, tx pgx.Tx, o job.SessionParams) (id int32, created bool, err error) {
	if o.Make {
		found, n, err := findQueues(ctx, tx, o.Namespace, []string{o.Queue}, nil)
		return found[o.Queue], n > 0, err
	}
	err = tx.QueryRow(ctx, selectQueue, o.Namespace, o.Queue).Scan(&id)
	if store.NoRows(err) {
		return 0, false, job.ErrNotFound
	}
	return id, false, err
}

var (
	lockMoved = statement("session_lock_runs")
	moveRuns  = statement("session_move_runs")
)

// adoptRuns opens a session that replaces a family of sessions and takes over their runs.
func (e *Engine) adoptRuns(
	ctx context.Context, w *job.WorkerSession, o job.SessionParams,
) (gone []job.Gone, err error) {
	has, known, replaces := map[job.RunKey]int16{}, false, false
	err = e.db.Tx(ctx, "adopt runs", func(tx pgx.Tx) error {
		clear(has)
		old, locks, err := lockFamily(ctx, tx, w, o.Adopt)
		if err != nil {
			return err
		}
		known = len(old) > 0
		k, attempt := splitLeases(sortedLeases(o.Runs))
		var batch pgx.Batch
		batch.Queue(lockEach, lockList(locks))
		// From here on nothing more is leased to them: see endSession.
		batch.Queue(endSessions, old, w.Queue).Exec(func(tag pgconn.CommandTag) error {
			replaces = tag.RowsAffected() > 0
			return nil
		})
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		if err := e.sessions.mayOpen(ctx, tx, w.Namespace, replaces); err != nil {
			return err
		}
		batch = pgx.Batch{}
		batch.Queue(insertSession, w.ID, w.Name, o.TTL, w.Namespace, w.Queue, o.Slots).
			QueryRow(func(row pgx.Row) error { return row.Scan(&w.ExpiresAt) })
		batch.Queue(lockMoved, k.Partition, k.Job, k.DueAt, k.Seq, old, w.Queue)
		batch.Queue(moveRuns, k.Partition, k.Job, k.DueAt, k.Seq, attempt, old, w.ID, w.Queue).Query(collectLeases(has))
		return tx.SendBatch(ctx, &batch).Close()
	})
	switch {
	case store.Code(err) == store.LockNotAvailable:
		return nil, job.ErrAdopting
	case err != nil:
		return nil, err
	}
	if known {
		return e.goneLeases(ctx, w.Namespace, o.Adopt, missing(o.Runs, has))
	}
	// The session does not exist or belongs to another queue. This worker must not learn which.
	for _, l := range o.Runs {
		gone = append(gone, job.Gone{Lease: l, Why: job.GoneLost})
	}
	return gone, nil
}

// adoptLockTimeout ends the wait for a lock of an adoption, which has a connection meanwhile. The worker repeats its
// request.
const adoptLockTimeout = "2s"

// lockFamily keeps others from opening a session of a family and returns the family's sessions in the queue. Nothing is
// leased to a session that does not exist.
func lockFamily(
	ctx context.Context, tx pgx.Tx, w *job.WorkerSession, adopt uuid.UUID,
) (ids []uuid.UUID, locks map[int64]bool, err error) {
	first, last := family(adopt)
	high, low := lockFamilyOf(adopt)
	locks = map[int64]bool{} // only of sessions that exist, because a client may choose an id and so its lock
	var batch pgx.Batch      // one round trip; each statement sees what is committed when it begins
	store.AsWorker(w.Namespace, w.Queue)(&batch)
	batch.Queue(`SELECT set_config('lock_timeout', $1, true)`, adoptLockTimeout)
	batch.Queue(`SELECT pg_advisory_xact_lock($1::integer, $2::integer)`, high, low)
	batch.Queue(`SELECT id FROM session WHERE id BETWEEN $1 AND $2 AND queue_id = $3`, first, last, w.Queue).
		Query(func(rows pgx.Rows) error {
			var id uuid.UUID
			_, err := pgx.ForEachRow(rows, []any{store.Raw(&id)}, func() error {
				ids, locks[store.SessionLock(id)] = append(ids, id), true
				return nil
			})
			return err
		})
	return ids, locks, tx.SendBatch(ctx, &batch).Close()
}

// collectLeases notes which attempts were found.
func collectLeases(has map[job.RunKey]int16) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var k job.Key
		var attempt int16
		_, err := pgx.ForEachRow(rows, []any{&k.Partition, store.Raw(&k.Job), &k.DueAt, &k.Seq, &attempt}, func() error {
			has[k.RunKey()] = attempt
			return nil
		})
		return err
	}
}

func missing(leases []job.Lease, has map[job.RunKey]int16) (out []job.Lease) {
	for _, l := range leases {
		if has[l.Key.RunKey()] != l.Attempt {
			out = append(out, l)
		}
	}
	return out
}

// sortedLeases returns leases in the order in which every transaction locks runs.
func sortedLeases(leases []job.Lease) []job.Lease {
	return slices.SortedFunc(slices.Values(leases), func(a, b job.Lease) int { return store.CompareKeys(a.Key, b.Key) })
}

func splitLeases(leases []job.Lease) (store.Keys, []int16) {
	keys, attempt := make([]job.Key, len(leases)), make([]int16, len(leases))
	for i, l := range leases {
		keys[i], attempt[i] = l.Key, l.Attempt
	}
	return store.SplitKeys(keys), attempt
}

// endSession ends a worker's session, under its lock. A claim that began earlier compares expires_at with an earlier
// instant, so the session ends at -infinity.
const (
	endSession = `
UPDATE session SET expires_at = '-infinity' WHERE id = $1 AND queue_id = $2 AND expires_at > '-infinity'`
	endSessions = `
UPDATE session SET expires_at = '-infinity' WHERE id = ANY ($1) AND queue_id = $2 AND expires_at > '-infinity'`
)

// EndSession ends a worker's session. The runs that it still has count as lost, and are retried as soon as a node
// notices.
func (e *Engine) EndSession(ctx context.Context, w job.WorkerSession) error {
	var batch pgx.Batch // one round trip, one transaction
	store.AsWorker(w.Namespace, w.Queue)(&batch)
	batch.Queue(`SELECT pg_advisory_xact_lock($1)`, store.SessionLock(w.ID))
	batch.Queue(endSession, w.ID, w.Queue)
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// WorkerSession returns a session of a namespace's queue. ErrNotFound: the session never existed, or it has expired and
// its runs were given to others.
func (e *Engine) WorkerSession(
	ctx context.Context, namespace uuid.UUID, queue string, id uuid.UUID,
) (w job.WorkerSession, err error) {
	w = job.WorkerSession{ID: id, Namespace: namespace, QueueName: queue}
	err = e.api.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		w.Queue, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int32])
		return err
	}, `
SELECT s.queue_id FROM session s JOIN queue q ON q.id = s.queue_id
WHERE s.id = $1 AND s.namespace_id = $2 AND q.namespace_id = $2 AND q.name = $3`, id, namespace, queue)
	if store.NoRows(err) {
		return w, job.ErrNotFound
	}
	if err != nil {
		return w, fmt.Errorf("read a session: %w", err)
	}
	return w, nil
}

// renewWorker moves the expiry of a session that has not ended, even if it has expired. Its commit need not reach the
// disk: if a renewal is lost, the session expires early and its worker is fenced.
//
// A failover may have lost reports of a session, which then has runs that its worker has forgotten. It is not renewed:
// the worker opens another one, which adopts the runs that the worker knows and ends the others.
const renewWorker = `
UPDATE session SET renewed_at = now(), expires_at = now() + $3::interval, alive = belfry_alive()
WHERE id = $1 AND queue_id = $2 AND expires_at > '-infinity'
  AND NOT EXISTS (SELECT FROM failover WHERE noticed_at > started_at AND (lost OR NOT synchronous))
RETURNING expires_at`

// leasedRuns returns the indexes of the named attempts that a session has, and which of them take too long by the version
// of the job that they were claimed with.
const leasedRuns = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt,
           generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT k.n, belfry_clock_trusted() AND r.claimed_at + interval '1 ms' * coalesce(v.timeout_ms, 0) + $7::interval < now()
FROM k, LATERAL (
    SELECT partition, job_id, version, claimed_at FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
      AND attempt = k.attempt AND state = 1 /* running */ AND session_id = $6
    LIMIT 1) r
LEFT JOIN LATERAL (
    SELECT timeout_ms FROM job_version WHERE partition = r.partition AND job_id = r.job_id AND version = r.version
    LIMIT 1) v ON true`

// noteProgress stores the progress of all runs of a heartbeat, if the same transaction has renewed the session. It skips
// locked runs: whoever locks a run is about to end it, and a heartbeat that waits does not renew its session.
const noteProgress = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt, unnest($7::smallint[]) AS percent,
           unnest($8::text[]) AS progress
), found AS MATERIALIZED (
    SELECT r.address, k.percent, k.progress FROM k, LATERAL (
        SELECT ctid AS address FROM run
        WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
          AND attempt = k.attempt AND session_id = $6 AND state = 1 /* running */
        LIMIT 1 FOR UPDATE SKIP LOCKED) r
    WHERE EXISTS (SELECT FROM session WHERE id = $6 AND renewed_at = now() AND expires_at > '-infinity')
)
UPDATE run SET percent = f.percent, progress = f.progress FROM found f WHERE run.ctid = f.address`

// timeoutGrace is how much longer than its timeout an attempt may take, so that the worker can end it first.
const timeoutGrace = 5 * time.Second

// Heartbeat renews a worker's session, stores the progress of its attempts and returns which of them the session no
// longer has. It ends attempts that take too long. ErrSessionExpired: all attempts are lost.
func (e *Engine) Heartbeat(
	ctx context.Context, w job.WorkerSession, ttl time.Duration, leases []job.Lease,
) (expires time.Time, gone []job.Gone, err error) {
	var left []job.Lease
	var late []job.Completion
	k, attempt := splitLeases(leases)
	has := make([]bool, len(leases))
	var batch pgx.Batch // one round trip, one transaction, which commits even if the session has expired
	store.InWith(w.Namespace, []int32{w.Queue}, store.LazyCommit, store.KeyLookups, store.OnePlan).Queue(&batch)
	batch.Queue(renewWorker, w.ID, w.Queue, ttl).QueryRow(func(row pgx.Row) error { return row.Scan(&expires) })
	batch.Queue(leasedRuns, k.Partition, k.Job, k.DueAt, k.Seq, attempt, w.ID, timeoutGrace).
		Query(func(rows pgx.Rows) error {
			var n int
			var overdue bool
			_, err := pgx.ForEachRow(rows, []any{&n, &overdue}, func() error {
				has[n] = true
				if overdue {
					late = append(late, timedOut(w, leases[n]))
				}
				return nil
			})
			return err
		})
	queueProgress(&batch, w.ID, leases)
	err = e.db.SendBatch(ctx, &batch).Close()
	switch {
	case store.NoRows(err):
		return expires, nil, job.ErrSessionExpired
	case err != nil:
		return expires, nil, fmt.Errorf("heartbeat: %w", err)
	}
	for i, l := range leases {
		if !has[i] {
			left = append(left, l)
		}
	}
	if gone, err = e.goneLeases(ctx, w.Namespace, w.ID, left); err != nil || len(late) == 0 {
		return expires, gone, err
	}
	if _, err := e.Write(ctx, store.AsReporter(w.Namespace), late); err != nil {
		return expires, nil, err
	}
	for _, c := range late {
		gone = append(gone, job.Gone{Lease: job.Lease{Key: c.Key, Attempt: c.Attempt}, Why: job.GoneTimeout})
	}
	return expires, gone, nil
}

// queueProgress adds the statement that stores the progress of attempts, if there is any.
func queueProgress(batch *pgx.Batch, session uuid.UUID, leases []job.Lease) {
	leases = slices.DeleteFunc(sortedLeases(leases), func(l job.Lease) bool {
		return l.Percent == nil && l.Progress == nil
	})
	if len(leases) == 0 {
		return
	}
	k, attempt := splitLeases(leases)
	percent, progress := make([]*int16, len(leases)), make([]*string, len(leases))
	for i, l := range leases {
		percent[i], progress[i] = l.Percent, l.Progress
	}
	batch.Queue(noteProgress, k.Partition, k.Job, k.DueAt, k.Seq, attempt, session, percent, progress)
}

func timedOut(w job.WorkerSession, l job.Lease) job.Completion {
	return job.Completion{
		Key: l.Key, Attempt: l.Attempt, Session: w.ID, Namespace: w.Namespace, Outcome: job.Outcome{
			Kind: job.Failed, Retryable: true, Unknown: true, Message: "the worker took longer than the timeout",
		},
	}
}

// selectFates reads how attempts ended: how the run ended or, while it is live, the outcome of the attempt. It
// reads only runs of the session's own queue, because a worker must not learn about others. What ended a day before the
// session started was not one of its attempts: without that limit, each run that a worker invents would be searched in
// all days of history.
const selectFates = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt, unnest($6::uuid[]) AS session_id,
           generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT k.n, h.ended, coalesce(h.session_id = k.session_id, false), r.outcome
FROM k
LEFT JOIN LATERAL (SELECT queue_id, started_at FROM session WHERE id = k.session_id LIMIT 1) s ON true
LEFT JOIN LATERAL (
    SELECT ended, session_id FROM run_history
    WHERE job_id = k.job_id AND due_at = k.due_at AND seq = k.seq AND attempt = k.attempt AND queue_id = s.queue_id
      AND ended_at > s.started_at - interval '1 day'
    ORDER BY ended_at DESC LIMIT 1) h ON true
LEFT JOIN LATERAL (
    SELECT (a ->> 'outcome')::smallint AS outcome FROM run, jsonb_array_elements(coalesce(attempts, '[]')) a
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
      AND queue_id = s.queue_id AND (a ->> 'attempt')::smallint = k.attempt
    LIMIT 1) r ON true`

// goneLeases returns why a session no longer has the attempts.
func (e *Engine) goneLeases(
	ctx context.Context, namespace, session uuid.UUID, leases []job.Lease,
) (gone []job.Gone, err error) {
	attempts := make([]job.Completion, len(leases))
	for i, l := range leases {
		attempts[i] = job.Completion{Key: l.Key, Attempt: l.Attempt, Session: session, Namespace: namespace}
	}
	why, err := e.goneReasons(ctx, attempts)
	for i := range why {
		gone = append(gone, job.Gone{Lease: leases[i], Why: why[i]})
	}
	return gone, err
}

// goneReasons returns why the sessions no longer have the attempts, in their order.
func (e *Engine) goneReasons(ctx context.Context, attempts []job.Completion) ([]job.GoneReason, error) {
	if len(attempts) == 0 {
		return nil, nil
	}
	why := make(map[report]job.GoneReason, len(attempts))
	var batch pgx.Batch // one round trip, one transaction
	for _, part := range finish.SplitNamespaces(attempts) {
		k, attempt := finish.SplitCompletions(part)
		store.AsReporter(part[0].Namespace)(&batch)
		batch.Queue(selectFates, k.Partition, k.Job, k.DueAt, k.Seq, attempt, finish.SessionsOf(part)).
			Query(func(rows pgx.Rows) error {
				var n int
				var f job.Fate
				_, err := pgx.ForEachRow(rows, []any{&n, &f.Ended, &f.Mine, &f.Outcome}, func() error {
					why[reportOf(part[n])] = f.Why()
					return nil
				})
				return err
			})
	}
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read the outcomes of %d attempts: %w", len(attempts), err)
	}
	out := make([]job.GoneReason, len(attempts))
	for i, a := range attempts {
		out[i] = why[reportOf(a)]
	}
	return out, nil
}
