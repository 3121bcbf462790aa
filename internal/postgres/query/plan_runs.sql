-- Plan: inserts the runs of all jobs of the planned cursors. $1 to $5 are the due times: partition, cursor, due time,
-- run time without jitter, origin. $6 is the end of the look-ahead: a new owner loads runs only up to there, so a run
-- that starts later needs the sweep. Jobs after $7 up to $8 get runs: not all, if a due time has too many of them.
-- The run time with jitter is schedule.RunAt in SQL: a hash of due time and job spreads the jobs over the jitter.
-- OFFSET 0 keeps one scan of the index job_cursor per cursor, whatever the statistics say.
-- The conditions on id are on (cursor_id, id), so that PostgreSQL does not choose the primary key, with which it would
-- read all jobs of the partition.
WITH c AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::timestamptz[]) AS run_at, unnest($5::smallint[]) AS origin
)
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 concurrency_key, concurrency_max, handler, needs_sweep)
SELECT c.partition, 0, j.version, j.id, c.due_at, t.run_at, 0 /* pending */, 0, j.priority, c.origin, j.admit,
       j.queue_id, j.concurrency_key, j.concurrency_max, j.handler, j.handler IS NULL AND t.run_at > $6
FROM c, LATERAL (
    SELECT version, id, priority, admit, queue_id, concurrency_key, concurrency_max, handler, jitter_ms FROM job
    WHERE partition = c.partition AND cursor_id = c.cursor_id AND state = 1 /* active */
      AND (cursor_id, id) > (c.cursor_id, $7) AND (cursor_id, id) <= (c.cursor_id, $8)
      AND plan_from <= c.due_at AND (end_at IS NULL OR c.due_at < end_at)
    OFFSET 0) j, LATERAL (
    SELECT CASE WHEN j.jitter_ms = 0 THEN c.run_at ELSE greatest(c.run_at, c.due_at + interval '1 ms' * (
        ('x' || encode(substring(sha256(int8send((extract(epoch FROM c.due_at) * 1000000)::bigint) ||
                                        convert_to(j.id::text, 'UTF8')) FROM 1 FOR 7), 'hex'))::bit(56)::bigint
        % j.jitter_ms)) END AS run_at) t
ON CONFLICT DO NOTHING
RETURNING partition, job_id, due_at, run_at, version, priority, origin, queue_id, coalesce(concurrency_key, 0),
          coalesce(concurrency_max, 0), handler IS NOT NULL
