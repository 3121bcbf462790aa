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
       coalesce(c.handler, ''), coalesce(j.namespace_id, '00000000-0000-0000-0000-000000000000'), coalesce(j.name, ''),
       coalesce(j.timeout_ms, 0), coalesce(j.target_kind, ''),
       CASE WHEN x.large THEN '' ELSE coalesce(j.target_config, '') END,
       CASE WHEN x.large THEN 'later' ELSE coalesce(c.payload, j.payload, '') END,
       coalesce(c.trace, ''), coalesce(c.idempotency_key, ''),
       CASE WHEN c.idempotency_key IS NULL THEN coalesce(j.idempotency_key, '') ELSE '' END,
       CASE WHEN c.idempotency_key IS NULL AND j.idempotency_key IS NOT NULL
                 OR j.target_kind IN ('kafka', 'nats', 'amqp') AND j.target_config LIKE '%${%'
            THEN jsonb_build_object('name', j.name, 'labels', j.labels,
                     'queue', (SELECT q.name FROM queue q WHERE q.id = j.queue_id),
                     'namespace', (SELECT n.name FROM namespace n WHERE n.id = j.namespace_id))::text
            ELSE '' END,
       c.queue_id
FROM claimed c LEFT JOIN LATERAL (
    SELECT * FROM job WHERE partition = c.partition AND id = c.job_id LIMIT 1) j ON true, LATERAL (
    SELECT octet_length(coalesce(c.payload, j.payload, '')) + octet_length(coalesce(j.target_config, '')) > 2048
        AS large
    ) x
