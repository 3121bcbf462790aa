-- Catch up: moves missed runs that do not run to history. $1 to $3 are their keys, $4 is the instant, $5 the reason.
-- A run that a change of its job has removed meanwhile is left out. It returns the queue of each run.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at
), gone AS (
    DELETE FROM run WHERE ctid = ANY (ARRAY(
        SELECT x.address FROM k, LATERAL (
            SELECT ctid AS address FROM run
            WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = 0
              AND state = 0 /* pending */ AND attempt = 0
            LIMIT 1 FOR UPDATE) x))
    RETURNING partition, seq, version, job_id, due_at, run_at, origin, queue_id
)
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status,
                         queue_id, reason)
SELECT partition, seq, version, job_id, due_at, run_at, $4, 4 /* skipped */, 0, origin, 0, queue_id, $5 FROM gone
RETURNING queue_id
