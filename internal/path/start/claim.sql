-- Claim: starts those of the runs named by $1 to $4 (partition, job, due time, sequence) that are pending, due within
-- the lead $6, in a partition that session $5 owns, under no limit, and need no decision: Decide would start them
-- too (TestClaimsStartWhatThePolicyStarts). It returns what a target needs to deliver them. Runs that came due while no
-- node served the partition wait until CatchUp has decided them.
-- After a restore of the database, runs of the forgotten time are held, and attempt numbers begin above attempt_base.
--
-- The form and the settings store.KeyLookups, which the same transaction applies first, allow one plan only: each key
-- is looked up by the whole primary key and the rows are updated by their address. A join would flip to a quadratic
-- plan as soon as the statistics of the live table are wrong, which is most of the time
-- (TestHotStatementsKeepTheirPlan).
WITH c AS MATERIALIZED (
    SELECT held_until, restored_until, attempt_base FROM cluster WHERE only_row
), k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, held_until
    FROM c
), claimed AS (
    UPDATE run SET state = 1 /* running */, session_id = $5, claimed_at = now(),
        attempt = 1 + CASE WHEN due_at < (SELECT restored_until FROM c)
            THEN greatest(attempt, (SELECT attempt_base FROM c)) ELSE attempt END,
        free_attempts = CASE WHEN due_at < (SELECT restored_until FROM c)
            THEN coalesce(free_attempts, 0) + greatest(0, (SELECT attempt_base FROM c) - attempt) ELSE free_attempts END
    WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM k, LATERAL (
            SELECT r.ctid AS address
            FROM run r, LATERAL belfry_may_start(
                k.partition, r.due_at, r.handler, r.queue_id, r.origin, r.attempt, k.held_until, $5, NULL) may
            WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
              AND r.state = 0 /* pending */ AND r.run_at <= now() + $6::interval
              AND r.concurrency_key IS NULL AND (SELECT limited FROM queue WHERE id = r.queue_id) IS NOT TRUE
              AND (r.admit & 3 = 0 /* freely */ OR r.admit & 1 = 1 /* if alone */ AND NOT EXISTS (
                  SELECT FROM run o WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0 /* live */)
                AND (r.admit & 2 = 0 OR NOT EXISTS ( /* if first */
                  SELECT FROM run o
                  WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state = 0 /* pending */
                    AND (o.due_at, o.seq) < (r.due_at, r.seq) AND o.run_at <= now() + $6::interval
                    AND o.due_at >= k.held_until)))
              AND (r.admit & 4 = 0 OR r.attempts IS NOT NULL OR r.origin IN (2, 4) /* backfill, redrive */ OR
                   greatest(now(), r.run_at) <= coalesce(r.due_at + (
                       SELECT deadline FROM job WHERE partition = k.partition AND id = k.job_id), 'infinity'))
            LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x
        WHERE EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now()) AND belfry_clock_trusted()))
    RETURNING partition, job_id, due_at, seq, attempt, version, origin, run_at, session_id, claimed_at, handler,
              payload, trace, idempotency_key, queue_id
)
SELECT c.partition, c.job_id, c.due_at, c.seq, c.attempt, c.version, c.origin, c.run_at, c.session_id, c.claimed_at,
       coalesce(c.handler, ''), j.*, coalesce(c.trace, ''), coalesce(c.idempotency_key, ''), c.queue_id
FROM claimed c, LATERAL belfry_attempt(c.partition, c.job_id, c.payload, c.idempotency_key) j
