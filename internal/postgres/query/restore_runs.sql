-- Accept a restore: inserts runs of one cursor for occurrences of the forgotten time, which plan has skipped. $1
-- partition, $2 cursor, $3 due times, $4 when each may start, $5 the job after which to begin, $6 how many jobs. A
-- schedule that ended in the forgotten time has finished its jobs: they run too. A job that has its own entry for a due
-- time keeps that. The planner of the owner does not know these runs, so they need the sweep. It returns how many runs
-- it wrote, how many jobs it read, and the last of them. Index: job_cursor.
WITH picked AS MATERIALIZED (
    SELECT version, id, priority, admit, queue_id, concurrency_key, concurrency_max, handler, plan_from, end_at
    FROM job
    WHERE partition = $1 AND cursor_id = $2 AND id > $5 AND state IN (1 /* active */, 3 /* finished */)
    ORDER BY id LIMIT $6
), written AS (
    INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                     concurrency_key, concurrency_max, handler, needs_sweep)
    SELECT $1, 0, version, id, due_at, run_at, 0 /* pending */, 0, priority, 3 /* missed */, admit, queue_id,
           concurrency_key, concurrency_max, handler, handler IS NULL
    FROM picked j, (SELECT unnest($3::timestamptz[]) AS due_at, unnest($4::timestamptz[]) AS run_at) d
    WHERE j.plan_from <= d.due_at AND (j.end_at IS NULL OR d.due_at < j.end_at)
      AND NOT EXISTS (SELECT FROM run_history h WHERE h.job_id = j.id AND h.due_at = d.due_at AND h.seq = 0)
    ON CONFLICT DO NOTHING
    RETURNING job_id
)
SELECT (SELECT count(*) FROM written), (SELECT count(*) FROM picked),
       coalesce((SELECT id FROM picked ORDER BY id DESC LIMIT 1), $5)
