package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// Only what is due: the time between claim and start must not be one in which places and tokens are taken.
const applicantRuns = `
WITH` + keyed + `
SELECT x.* FROM k, LATERAL (
    SELECT r.ctid::text, r.partition, r.job_id, r.due_at, r.seq, r.priority, r.run_at, r.queue_id, coalesce(r.concurrency_key, 0), coalesce(r.concurrency_max, 1)
    FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.state = 0 AND r.run_at <= now() AND r.handler IS NULL
      AND (SELECT owner FROM partition WHERE id = k.partition) = $5
      AND (r.admit = 0 OR r.admit = 1 AND NOT EXISTS (
          SELECT FROM run o WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0))
    LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x
WHERE EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now())`

// The rows are locked, so their addresses hold.
const startLimited = `
WITH p AS MATERIALIZED (
    SELECT unnest($1::text[])::tid AS address, unnest($2::bigint[]) AS queue_permit, unnest($3::bigint[]) AS key_permit
), claimed AS (
    UPDATE run SET state = 1, attempt = attempt + 1, session_id = $4, claimed_at = now(),
        queue_permit = (SELECT p.queue_permit FROM p WHERE p.address = run.ctid),
        key_permit = (SELECT p.key_permit FROM p WHERE p.address = run.ctid)
    WHERE ctid = ANY (ARRAY(SELECT address FROM p))
    RETURNING partition, job_id, due_at, seq, attempt, version, origin, run_at, payload, trace, idempotency_key
)` + attemptColumns

// ClaimLimited is Claim for runs that fall under limits: it takes those that are due, need no decision and get
// a place. Of those that find none it says why; the others are gone, not this session's, or need a decision.
func (e *Engine) ClaimLimited(ctx context.Context, session uuid.UUID, keys []job.Key) (attempts []job.Attempt, refused []job.Refused, err error) {
	k := splitKeys(keys)
	err = e.db.Tx(ctx, "claim under limits", func(tx pgx.Tx) error {
		attempts, refused = nil, nil
		var runs []permitCandidate
		var addresses []string
		var batch pgx.Batch
		batch.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(pool.KeyLookups), lockOf(session))
		batch.Queue(applicantRuns, k.partition, k.job, k.dueAt, k.seq, session).Query(func(rows pgx.Rows) error {
			var o permitCandidate
			var address string
			_, err := pgx.ForEachRow(rows, []any{&address, &o.key.Partition, raw(&o.key.Job), &o.key.DueAt, &o.key.Seq, &o.Priority, &o.RunAt, &o.Queue, &o.Key, &o.KeyMax}, func() error {
				runs, addresses = append(runs, o), append(addresses, address)
				return nil
			})
			return err
		})
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil || len(runs) == 0 {
			return err
		}
		places, err := e.takePlaces(ctx, tx, session, runs)
		if err != nil {
			return err
		}
		attempts, refused, err = startPlaced(ctx, tx, session, placed{runs, addresses, places})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return attempts, refused, nil
}

// placed are runs and what takePlaces said about each.
type placed struct {
	runs      []permitCandidate
	addresses []string
	places    []place
}

func startPlaced(ctx context.Context, tx pgx.Tx, session uuid.UUID, in placed) (attempts []job.Attempt, refused []job.Refused, err error) {
	var address []string
	var queueHold, keyHold []*int64
	limits := map[job.RunKey][]job.Limit{}
	for i, p := range in.places {
		if !p.granted() {
			refused = append(refused, job.Refused{Key: in.runs[i].key, Refusal: p.Refusal})
			continue
		}
		address, queueHold, keyHold = append(address, in.addresses[i]), append(queueHold, p.queueHold), append(keyHold, p.keyHold)
		limits[in.runs[i].key.RunKey()] = p.limits(&in.runs[i].Candidate)
	}
	if len(address) == 0 {
		return nil, refused, nil
	}
	rows, err := tx.Query(ctx, startLimited, address, queueHold, keyHold, session)
	if err != nil {
		return nil, nil, err
	}
	if err := collectAttempts(session, &attempts)(rows); err != nil {
		return nil, nil, err
	}
	for i := range attempts {
		attempts[i].Limits = limits[attempts[i].Key.RunKey()]
	}
	return attempts, refused, nil
}

// writeLanes says what waits here. It need not survive a crash.
const writeLanes = `
INSERT INTO queue_waiter (queue_id, session_id, waiting, priority, run_at, reported_at)
SELECT unnest($1::integer[]), $2, unnest($3::integer[]), unnest($4::smallint[]), unnest($5::timestamptz[]), now()
ON CONFLICT (queue_id, session_id) DO UPDATE SET waiting = excluded.waiting, priority = excluded.priority,
    run_at = excluded.run_at, reported_at = excluded.reported_at`

// Places says what waits for queues on this node, and tells what room there is, without a lock: a hint. Queues
// that have no limit any more are left out.
func (e *Engine) Places(ctx context.Context, session uuid.UUID, limits []job.Limit, lanes []job.WaiterReport) (map[job.Limit]*job.Capacity, error) {
	kind, id, low := e.lows.columns(limits)
	r := rooms{rooms: map[job.Limit]*job.Capacity{}}
	var queue, waiting []int32
	var priority []int16
	var runAt []time.Time
	for _, l := range lanes {
		queue, waiting, priority, runAt = append(queue, l.Queue), append(waiting, l.Waiting), append(priority, l.Priority), append(runAt, l.RunAt)
	}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(pool.LazyCommit, pool.KeyLookups))
	if len(lanes) > 0 {
		batch.Queue(writeLanes, queue, session, waiting, priority, runAt)
	}
	batch.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&r.now) })
	batch.Queue(readRooms, kind, id, low, session).Query(e.collectRooms(&r))
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("look for places: %w", err)
	}
	for _, room := range r.rooms {
		if room.Limits.Rate.Count > 0 {
			room.Bucket = room.Bucket.Fill(room.Limits, r.now)
		}
	}
	return r.rooms, nil
}
