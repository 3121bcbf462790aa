-- Plan: counts the active jobs of cursors, which are given in order, until $4 are counted. $1 partitions, $2 cursors,
-- $3 the job after which to begin. It returns positions in these arrays, from 0 on. Index: job_cursor, as in plan_runs.
SELECT x.n, count(*)
FROM (
    SELECT k.n
    FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id,
                 unnest($3::uuid[]) AS after_job, generate_subscripts($1::smallint[], 1) - 1 AS n) k, LATERAL (
        SELECT FROM job
        WHERE partition = k.partition AND cursor_id = k.cursor_id AND (cursor_id, id) > (k.cursor_id, k.after_job)
          AND state = 1 /* active */
        OFFSET 0) j
    LIMIT $4) x
GROUP BY x.n
