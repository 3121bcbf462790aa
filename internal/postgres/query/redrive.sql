-- Redrive: makes the dead letters $1 to $4 live runs again, one after the other from $5 on, $6 per second. Their
-- attempts are counted on, so that a stale attempt stays fenced, but do not count against max_attempts. A run that is
-- live already stays as it is, and its dead letter stays too. It returns where the runs are, for a wake-up.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
), redriven AS (
    INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, free_attempts, origin,
                     admit, queue_id, concurrency_key, concurrency_max, handler, needs_sweep, payload, idempotency_key)
    SELECT d.partition, d.seq, j.version, d.job_id, d.due_at,
           $5::timestamptz + interval '1 second' * (row_number() OVER () - 1) / $6::integer,
           0 /* pending */, d.attempt, j.priority, d.attempt, 4 /* redrive */, j.admit, j.queue_id, j.concurrency_key,
           j.concurrency_max, j.handler, j.handler IS NULL, d.payload, d.idempotency_key
    FROM k, LATERAL (
        SELECT * FROM dead_letter
        WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq LIMIT 1) d, LATERAL (
        SELECT version, priority, admit, queue_id, concurrency_key, concurrency_max, handler FROM job
        WHERE partition = k.partition AND id = k.job_id LIMIT 1) j
    ON CONFLICT DO NOTHING
    RETURNING partition, job_id, due_at, seq, queue_id, handler
)
DELETE FROM dead_letter USING redriven r
WHERE dead_letter.partition = r.partition AND dead_letter.job_id = r.job_id AND dead_letter.due_at = r.due_at
  AND dead_letter.seq = r.seq
RETURNING r.partition, r.queue_id, r.handler IS NOT NULL
