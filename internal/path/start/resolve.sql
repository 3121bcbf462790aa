-- Resolve: returns those of the runs $1 to $4 that are leased to session $5, in the columns of claim.sql. It writes,
-- so that its commit waits until the standby has the claim too: a claim whose reply was lost may be visible here and
-- be gone after a failover. A session that has expired may be renewed and then still has its runs, so only the runs of
-- a session that has ended are left out: those are rescued.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
), claimed AS (
    UPDATE run SET session_id = $5
    WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM k, LATERAL (
            SELECT r.ctid AS address FROM run r
            WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
              AND r.state = 1 /* running */ AND r.session_id = $5
            LIMIT 1) x
        WHERE EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > '-infinity')))
    RETURNING partition, job_id, due_at, seq, attempt, version, origin, run_at, session_id, claimed_at, handler,
              payload, trace, idempotency_key, queue_id
)
SELECT c.partition, c.job_id, c.due_at, c.seq, c.attempt, c.version, c.origin, c.run_at, c.session_id, c.claimed_at,
       coalesce(c.handler, ''), j.*, coalesce(c.trace, ''), coalesce(c.idempotency_key, ''), c.queue_id
FROM claimed c, LATERAL belfry_attempt(c.partition, c.job_id, c.payload, c.idempotency_key) j
