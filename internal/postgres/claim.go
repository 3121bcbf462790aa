package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// keyed lists the keys that a statement is given.
const keyed = `
k AS MATERIALIZED (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at, unnest($4::smallint[]) AS seq)`

// attemptColumns reads what a target needs from claimed runs and their jobs.
const attemptColumns = `
SELECT c.partition, c.job_id, c.due_at, c.seq, c.attempt, c.version, c.origin, c.run_at,
       coalesce(j.namespace_id, '00000000-0000-0000-0000-000000000000'), coalesce(j.timeout_ms, 0), coalesce(j.target_kind, ''), coalesce(j.target_config, ''), coalesce(c.payload, j.payload, ''), coalesce(c.trace, ''), coalesce(c.idempotency_key, ''), ` + forExpressions + `
FROM claimed c LEFT JOIN LATERAL (SELECT * FROM job WHERE partition = c.partition AND id = c.job_id LIMIT 1) j ON true`

// forExpressions is the policy with the job's idempotency_key, and what expressions may know of
// it, for the few jobs that have any: of the others one short text is searched. Read here it is
// not: one that is broken would keep a whole batch from being claimed.
const forExpressions = `
       CASE WHEN j.policy LIKE '%"idempotency_key"%' THEN j.policy ELSE '' END,
       CASE WHEN j.policy LIKE '%"idempotency_key"%' OR j.target_kind IN ('kafka', 'nats', 'amqp') AND j.target_config LIKE '%${%' THEN jsonb_build_object('name', j.name, 'labels', j.labels,
           'queue', (SELECT q.name FROM queue q WHERE q.id = j.queue_id), 'namespace', (SELECT n.name FROM namespace n WHERE n.id = j.namespace_id))::text ELSE '' END`

// claimRuns takes, of the runs named, those that are pending, due within the
// lead, in a partition that the session owns, fall under no limit and need no
// decision.
//
// Its form leaves one plan: each key is looked up by the whole primary key, the
// rows are updated through their address. A join would flip to a quadratic plan
// as soon as the statistics of the live table are wrong, which is always.
const claimRuns = `
WITH` + keyed + `, claimed AS (
    UPDATE run SET state = 1, attempt = attempt + 1, session_id = $5, claimed_at = now()
    WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM k, LATERAL (
            SELECT r.ctid AS address FROM run r
            WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
              AND r.state = 0 AND r.run_at <= now() + $6::interval AND r.handler IS NULL
              AND (SELECT owner FROM partition WHERE id = k.partition) = $5
              AND r.concurrency_key IS NULL AND r.queue_id <> ALL (ARRAY(SELECT id FROM queue WHERE limited))
              AND (r.admit = 0 OR r.admit = 1 AND NOT EXISTS (
                  SELECT FROM run o WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0))
            LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x
        WHERE EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now())))
    RETURNING partition, job_id, due_at, seq, attempt, version, origin, run_at, payload, trace, idempotency_key
)` + attemptColumns

// Claim leases runs to a session: running, attempt + 1. It commits before it
// returns, so before any side effect. Runs that it does not return are not due,
// not this session's to claim, or need a decision or a place: see Admit and
// ClaimLimited.
//
// No two of the keys may be of one job: the statement sees the others as they
// were before it.
func (e *Engine) Claim(ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration) ([]job.Attempt, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	k := splitKeys(keys)
	var out []job.Attempt
	// One round trip and, without BEGIN, one transaction. The lock keeps a
	// takeover of this session's partitions out until it is over: two owners
	// can then not start two runs of a job that allows one.
	var batch pgx.Batch
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(pool.KeyLookups), lockOf(session))
	batch.Queue(claimRuns, k.partition, k.job, k.dueAt, k.seq, session, lead).Query(collectAttempts(session, &out))
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("claim %d runs: %w", len(keys), err)
	}
	return out, nil
}

// lockClaimed is a statement of its own: what somebody wrote while it waited is seen by the next one alone.
const lockClaimed = `
WITH` + keyed + `
SELECT FROM k, LATERAL (
    SELECT FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq AND r.state = 1 AND r.session_id = $5
    LIMIT 1 FOR UPDATE OF r) x`

// It writes, so that its commit waits for the standby to have the claim too: a
// claim that was cut off may be visible and not be there after a failover.
const claimedRuns = `
WITH` + keyed + `, claimed AS (
    UPDATE run SET session_id = $5
    WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM k, LATERAL (
            SELECT r.ctid AS address FROM run r
            WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq AND r.state = 1 AND r.session_id = $5
            LIMIT 1) x
        WHERE EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now())))
    RETURNING partition, job_id, due_at, seq, attempt, version, origin, run_at, payload, trace, idempotency_key
)` + attemptColumns

// Claimed returns those of the runs named that are leased to a session: what a
// claim did whose answer was lost.
func (e *Engine) Claimed(ctx context.Context, session uuid.UUID, keys []job.Key) (out []job.Attempt, err error) {
	keys = slices.SortedFunc(slices.Values(keys), compareKeys)
	k := splitKeys(keys)
	var batch pgx.Batch // one round trip, one transaction
	// Whole, and not shared: it waits for claims of this session that are still
	// under way in the server, though nobody waits for their answer any more.
	batch.Queue(`SELECT pg_advisory_xact_lock($1), `+string(pool.KeyLookups), lockOf(session))
	batch.Queue(lockClaimed, k.partition, k.job, k.dueAt, k.seq, session)
	batch.Queue(claimedRuns, k.partition, k.job, k.dueAt, k.seq, session).Query(collectAttempts(session, &out))
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("ask about %d claims: %w", len(keys), err)
	}
	return out, nil
}

func collectAttempts(session uuid.UUID, out *[]job.Attempt) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*out = nil
		d := job.Attempt{Session: session}
		var timeout int64
		var policy string
		_, err := pgx.ForEachRow(rows, []any{
			&d.Key.Partition, raw(&d.Key.Job), &d.Key.DueAt, &d.Key.Seq, &d.Number, &d.Version, &d.Origin, &d.RunAt,
			raw(&d.Namespace), &timeout, &d.Kind, &d.Config, &d.Payload, &d.Trace, &d.OwnKey, &policy, &d.About,
		}, func() error {
			d.Timeout = time.Duration(timeout) * time.Millisecond
			d.KeyExpression = keyExpression(policy)
			*out = append(*out, d)
			return nil
		})
		return err
	}
}

// keyExpression is the idempotency_key of a policy. One that cannot be read is no
// expression either: the run fails, and says so.
func keyExpression(policy string) string {
	if policy == "" {
		return ""
	}
	var p struct {
		IdempotencyKey string `json:"idempotency_key"`
	}
	if json.Unmarshal([]byte(policy), &p) != nil {
		return policy
	}
	return p.IdempotencyKey
}

// undecidedRuns are those of the runs named that still wait to be started.
const undecidedRuns = `
WITH` + keyed + `
SELECT r.* FROM k, LATERAL (
    SELECT partition, job_id, due_at, seq FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq AND state = 0 AND handler IS NULL
    LIMIT 1) r`

// Undecided tells which of the runs that Claim left are worth a question to
// Admit: those that are pending.
func (e *Engine) Undecided(ctx context.Context, keys []job.Key) (open []job.Key, err error) {
	k := splitKeys(keys)
	var batch pgx.Batch
	batch.Queue(pool.Apply(pool.KeyLookups))
	batch.Queue(undecidedRuns, k.partition, k.job, k.dueAt, k.seq).Query(func(rows pgx.Rows) error {
		var key job.Key
		_, err := pgx.ForEachRow(rows, []any{&key.Partition, raw(&key.Job), &key.DueAt, &key.Seq}, func() error {
			open = append(open, key)
			return nil
		})
		return err
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("look at %d runs that were not claimed: %w", len(keys), err)
	}
	return open, nil
}

// lockOf is the number of the advisory lock of a session. Locks of
// transactions only: those of sessions leak through PgBouncer.
func lockOf(session uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(session[8:]))
}

// keyColumns are keys as the arrays that statements take.
type keyColumns struct {
	partition []int16
	job       pgtype.FlatArray[pgtype.UUID]
	dueAt     []time.Time
	seq       []int16
}

// raw lets pgx read and write a UUID as bytes. A uuid.UUID goes through its text
// and back: a quarter of this process's CPU in the hot statements.
func raw(id *uuid.UUID) *[16]byte { return (*[16]byte)(id) }

func splitKeys(keys []job.Key) keyColumns {
	k := keyColumns{
		partition: make([]int16, len(keys)), job: make([]pgtype.UUID, len(keys)),
		dueAt: make([]time.Time, len(keys)), seq: make([]int16, len(keys)),
	}
	for i, key := range keys {
		k.partition[i], k.dueAt[i], k.seq[i] = key.Partition, key.DueAt, key.Seq
		k.job[i] = pgtype.UUID{Bytes: key.Job, Valid: true}
	}
	return k
}
