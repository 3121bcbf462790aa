package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// permitCandidate is a run that is to start, if there is a place. Its row is locked.
type permitCandidate struct {
	job.Candidate
	key job.Key
}

// place is what takePlaces says about a run: refused, or how its row is to be written.
type place struct {
	job.Refusal
	queueHold, keyHold *int64 // nil: it falls under no such limit
}

func (p *place) granted() bool { return p.Refusal == (job.Refusal{}) }

// limits that it has a place of.
func (p *place) limits(a *job.Candidate) (out []job.Limit) {
	if p.queueHold != nil {
		out = append(out, job.Limit{Kind: job.LimitQueue, ID: int64(a.Queue)})
	}
	if p.keyHold != nil {
		out = append(out, job.Limit{Kind: job.LimitKey, ID: a.Key})
	}
	return out
}

// takePlaces decides which of the runs may start under the limits of their queues
// and concurrency keys, and writes their holds: whoever starts a run calls it in
// the transaction that does, once, with all of them, and puts the two holds into
// the run's row. Runs without any limit cost one look at the limited queues.
// The session is that of who starts them: what waits there is nobody else's turn.
//
// Who calls has to hold the shared lock of a session that is alive: a limit that is
// new counts the runs that began without it when such transactions are over.
func (e *Engine) takePlaces(ctx context.Context, tx pgx.Tx, session uuid.UUID, runs []permitCandidate) ([]place, error) {
	if len(runs) > maxPlaces {
		return nil, fmt.Errorf("%d runs at once; at most %d are taken", len(runs), maxPlaces)
	}
	from := make([]job.Candidate, len(runs))
	for i := range runs {
		from[i] = runs[i].Candidate
	}
	r, err := e.readRooms(ctx, tx, session, limitsOf(from))
	if err != nil {
		return nil, err
	}
	refusals := job.GrantPermits(r.rooms, from, r.now)
	out := make([]place, len(runs))
	var w holdRows
	for i := range runs {
		out[i].Refusal = refusals[i]
		if !out[i].granted() {
			continue
		}
		n := r.first + int64(i)
		if q := (job.Limit{Kind: job.LimitQueue, ID: int64(from[i].Queue)}); r.rooms[q] != nil {
			out[i].queueHold = &n
			w.add(q, n, &runs[i])
		}
		if from[i].Key != 0 {
			out[i].keyHold = &n
			w.add(job.Limit{Kind: job.LimitKey, ID: from[i].Key}, n, &runs[i])
		}
	}
	return out, w.write(ctx, tx, r.rooms)
}

// limitsOf lists each limit once.
func limitsOf(from []job.Candidate) (out []job.Limit) {
	known := map[job.Limit]bool{}
	for i := range from {
		for _, l := range from[i].Limits() {
			if !known[l] {
				known[l] = true
				out = append(out, l)
			}
		}
	}
	return out
}

// limitRows lists the limits that a statement is given. Queues without one are none.
const limitRows = `
l AS MATERIALIZED (
    SELECT x.kind, x.id, x.low, q.max_running, q.rate, q.rate_seconds, q.burst
    FROM (SELECT unnest($1::smallint[]) AS kind, unnest($2::bigint[]) AS id, unnest($3::bigint[]) AS low) x
    LEFT JOIN LATERAL (SELECT * FROM queue WHERE x.kind = 1 AND id = x.id::integer AND limited LIMIT 1) q ON true
    WHERE x.kind = 2 OR q.id IS NOT NULL)`

// Tried, and not waited for: who does not get it asks again, and no queue holds up another.
const lockLimits = `
WITH` + limitRows + `
SELECT kind, id FROM l WHERE pg_try_advisory_xact_lock(hashint8extended(id, kind))`

// readRooms counts from the oldest hold that was alive when this process last looked.
const readRooms = `
WITH` + limitRows + `
SELECT l.kind, l.id, coalesce(l.max_running, 0), coalesce(l.rate, 0), coalesce(l.rate_seconds, 0),
    coalesce(l.burst, 0), h.running, h.oldest, b.tokens, b.refilled_at, a.priority, a.run_at
FROM l
CROSS JOIN LATERAL (
    SELECT count(*) AS running, min(number) AS oldest FROM (
        SELECT number FROM permit
        WHERE limit_kind = l.kind AND limit_id = l.id AND number >= l.low OFFSET 0) x) h
LEFT JOIN LATERAL (
    SELECT tokens, refilled_at FROM queue_rate
    WHERE l.rate IS NOT NULL AND queue_id = l.id::integer LIMIT 1) b ON true
LEFT JOIN LATERAL (
    SELECT priority, run_at FROM queue_waiter
    WHERE l.kind = 1 AND queue_id = l.id::integer AND session_id <> $4 AND priority >= 0
      AND reported_at > now() - interval '1 s'
    ORDER BY priority DESC, run_at LIMIT 1) a ON true`

// rooms are limits as a transaction sees them.
type rooms struct {
	now   time.Time
	rooms map[job.Limit]*job.Capacity
	first int64 // of maxPlaces numbers for holds
}

// maxPlaces is how many runs one transaction may start under limits: the increment of the sequence permit_number.
const maxPlaces = 1000

// readRooms locks limits and reads what room there is.
func (e *Engine) readRooms(ctx context.Context, tx pgx.Tx, session uuid.UUID, limits []job.Limit) (*rooms, error) {
	for again := false; ; again = true {
		r, err := e.readRoomsOnce(ctx, tx, session, limits)
		if err != nil || again || !e.lows.above(r.first, limits) {
			return r, err
		}
	}
}

func (e *Engine) readRoomsOnce(ctx context.Context, tx pgx.Tx, session uuid.UUID, limits []job.Limit) (*rooms, error) {
	kind, id, low := e.lows.columns(limits)
	r := &rooms{rooms: map[job.Limit]*job.Capacity{}}
	locked := map[job.Limit]bool{}
	var batch pgx.Batch
	batch.Queue(lockLimits, kind, id, low).Query(func(rows pgx.Rows) error {
		var l job.Limit
		_, err := pgx.ForEachRow(rows, []any{&l.Kind, &l.ID}, func() error { locked[l] = true; return nil })
		return err
	})
	// Behind the locks: numbers that are greater than all that were given out under them.
	batch.Queue(`SELECT nextval('permit_number'), now()`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&r.first, &r.now)
	})
	batch.Queue(readRooms, kind, id, low, session).Query(e.collectRooms(r))
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, err
	}
	for l, room := range r.rooms {
		room.Locked = locked[l]
	}
	return r, nil
}

func (e *Engine) collectRooms(r *rooms) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var l job.Limit
		var q job.QueueLimits
		var running int
		var oldest *int64
		var tokens *float64
		var at, runAt *time.Time
		var priority *int16
		_, err := pgx.ForEachRow(rows, []any{&l.Kind, &l.ID, &q.MaxRunning, &q.Rate.Count, &q.Rate.Seconds, &q.Burst, &running, &oldest, &tokens, &at, &priority, &runAt}, func() error {
			room := &job.Capacity{Running: running, Limits: q}
			if tokens != nil {
				room.Bucket = job.Bucket{Tokens: *tokens, At: *at}
			}
			if priority != nil {
				room.Ahead = &job.Waiter{Priority: *priority, RunAt: *runAt}
			}
			r.rooms[l] = room
			e.lows.note(l, oldest)
			return nil
		})
		return err
	}
}

// holdRows are new holds, as columns.
type holdRows struct {
	kind     []int16
	id, n    []int64
	queue    []int32
	keys     []job.Key
	rate     []int32
	tokens   []float64
	refilled []time.Time
}

func (w *holdRows) add(l job.Limit, n int64, run *permitCandidate) {
	w.kind, w.id, w.n = append(w.kind, int16(l.Kind)), append(w.id, l.ID), append(w.n, n)
	w.queue, w.keys = append(w.queue, run.Queue), append(w.keys, run.key)
}

const insertHolds = `
INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
SELECT unnest($1::smallint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::integer[]), unnest($5::smallint[]), unnest($6::uuid[]), unnest($7::timestamptz[]), unnest($8::smallint[])`

const writeBuckets = `
INSERT INTO queue_rate (queue_id, tokens, refilled_at)
SELECT unnest($1::integer[]), unnest($2::double precision[]), unnest($3::timestamptz[])
ON CONFLICT (queue_id) DO UPDATE SET tokens = excluded.tokens, refilled_at = excluded.refilled_at`

func (w *holdRows) write(ctx context.Context, tx pgx.Tx, rooms map[job.Limit]*job.Capacity) error {
	if len(w.n) == 0 {
		return nil // nothing was taken
	}
	for l, r := range rooms {
		if r.Locked && r.Limits.Rate.Count > 0 {
			w.rate, w.tokens, w.refilled = append(w.rate, int32(l.ID)), append(w.tokens, r.Bucket.Tokens), append(w.refilled, r.Bucket.At)
		}
	}
	k := splitKeys(w.keys)
	var batch pgx.Batch
	batch.Queue(insertHolds, w.kind, w.id, w.n, w.queue, k.partition, k.job, k.dueAt, k.seq)
	if len(w.rate) > 0 {
		batch.Queue(writeBuckets, w.rate, w.tokens, w.refilled)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// freeHolds deletes the holds of the runs in ended, which have the columns of run.
// By key, like all that touches a table whose statistics are always wrong.
const freeHolds = `
freed AS (
    DELETE FROM permit WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM (
            SELECT 1::smallint AS kind, queue_id::bigint AS id, queue_permit AS number FROM ended
            WHERE queue_permit IS NOT NULL
            UNION ALL
            SELECT 2, concurrency_key, key_permit FROM ended WHERE key_permit IS NOT NULL) e, LATERAL (
            SELECT p.ctid AS address FROM permit p
            WHERE p.limit_kind = e.kind AND p.limit_id = e.id AND p.number = e.number LIMIT 1) x)))`

// lows are the low-water marks of limits: no hold below one is alive. What was counted
// and has ended stays in the index as long as some snapshot may see it; so it is not looked at again.
type lows struct {
	mu sync.Mutex
	of map[job.Limit]int64
}

const maxLows = 100_000

func (w *lows) columns(limits []job.Limit) (kind []int16, id, low []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range limits {
		kind, id, low = append(kind, int16(l.Kind)), append(id, l.ID), append(low, w.of[l])
	}
	return kind, id, low
}

// note keeps the oldest that lives.
func (w *lows) note(l job.Limit, oldest *int64) {
	if oldest == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil || len(w.of) >= maxLows {
		w.of = map[job.Limit]int64{}
	}
	w.of[l] = *oldest
}

// above says that a mark is above a number that was given out just now, and forgets such
// marks: another server, which knows less, has taken over, and numbers went back.
func (w *lows) above(first int64, limits []job.Limit) (found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range limits {
		if w.of[l] > first {
			delete(w.of, l)
			found = true
		}
	}
	return found
}
