-- Plan: plan_runs.sql for jobs with max_runs, as many runs as a job has left. The lock of the cursor protects
-- runs_left; plan_count_runs.sql takes the runs off it. Index: job_cursor_limited.
WITH c AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::timestamptz[]) AS run_at, unnest($5::smallint[]) AS origin
), candidate AS (
    SELECT j.*, c.due_at, c.origin, row_number() OVER (PARTITION BY j.id ORDER BY c.due_at) AS n,
           CASE WHEN j.jitter_ms = 0 THEN c.run_at ELSE greatest(c.run_at, c.due_at + interval '1 ms' * (
               ('x' || encode(substring(sha256(int8send((extract(epoch FROM c.due_at) * 1000000)::bigint) ||
                                               convert_to(j.id::text, 'UTF8')) FROM 1 FOR 7), 'hex'))::bit(56)::bigint
               % j.jitter_ms)) END AS run_at
    FROM c, LATERAL (
        SELECT partition, version, id, priority, admit, queue_id, concurrency_key, concurrency_max, handler, jitter_ms,
               runs_left
        FROM job
        WHERE partition = c.partition AND cursor_id = c.cursor_id AND state = 1 /* active */ AND runs_left IS NOT NULL
          AND (cursor_id, id) > (c.cursor_id, $7) AND (cursor_id, id) <= (c.cursor_id, $8)
          AND plan_from <= c.due_at AND (end_at IS NULL OR c.due_at < end_at)
        OFFSET 0) j
)
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 concurrency_key, concurrency_max, handler, needs_sweep)
SELECT partition, 0, version, id, due_at, run_at, 0 /* pending */, 0, priority, origin, admit, queue_id,
       concurrency_key, concurrency_max, handler, handler IS NULL AND run_at > $6
FROM candidate WHERE n <= runs_left
ON CONFLICT DO NOTHING
RETURNING partition, job_id, due_at, run_at, version, priority, origin, queue_id, coalesce(concurrency_key, 0),
          coalesce(concurrency_max, 0), handler IS NOT NULL
