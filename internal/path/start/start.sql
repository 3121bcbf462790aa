-- Start: starts runs that an earlier statement of this transaction has locked: admitted ones, those under a limit,
-- and those that workers pull. $1 addresses (they hold while the rows are locked), $2 the session of each, $3 and $4
-- its permits of the queue and of the concurrency key; NULL: it needs none. It returns the same columns as claim.sql.
WITH p AS MATERIALIZED (
    SELECT unnest($1::text[])::tid AS address, unnest($2::uuid[]) AS session_id, unnest($3::bigint[]) AS queue_permit,
           unnest($4::bigint[]) AS key_permit
), claimed AS (
    UPDATE run r SET state = 1 /* running */, session_id = p.session_id, claimed_at = now(),
        queue_permit = p.queue_permit, key_permit = p.key_permit,
        attempt = 1 + CASE WHEN r.due_at < (SELECT restored_until FROM cluster WHERE only_row)
            THEN greatest(r.attempt, (SELECT attempt_base FROM cluster WHERE only_row)) ELSE r.attempt END,
        free_attempts = CASE WHEN r.due_at < (SELECT restored_until FROM cluster WHERE only_row)
            THEN coalesce(r.free_attempts, 0)
                + greatest(0, (SELECT attempt_base FROM cluster WHERE only_row) - r.attempt)
            ELSE r.free_attempts END
    FROM p WHERE r.ctid = p.address
    RETURNING r.partition, r.job_id, r.due_at, r.seq, r.attempt, r.version, r.origin, r.run_at, r.session_id,
              r.claimed_at, r.handler, r.payload, r.trace, r.idempotency_key, r.queue_id
)
SELECT c.partition, c.job_id, c.due_at, c.seq, c.attempt, c.version, c.origin, c.run_at, c.session_id, c.claimed_at,
       coalesce(c.handler, ''), j.*, coalesce(c.trace, ''), coalesce(c.idempotency_key, ''), c.queue_id
FROM claimed c, LATERAL belfry_attempt(c.partition, c.job_id, c.payload, c.idempotency_key) j
