-- Catch up: gives missed runs that run their time to start. $1 to $3 are their keys, $4 the times without jitter, $5 is
-- the end of the look-ahead: a new owner loads runs only up to there, so a run that starts later needs the sweep.
UPDATE run SET (origin, run_at, needs_sweep) = (
    SELECT 3 /* missed */, t, run.handler IS NULL AND t > $5::timestamptz
    FROM (SELECT greatest(run.run_at, x.run_at) AS t OFFSET 0) g)
FROM (
    SELECT k.run_at, a.address
    FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
                 unnest($4::timestamptz[]) AS run_at OFFSET 0) k, LATERAL (
        SELECT ctid AS address FROM run
        WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = 0
          AND state = 0 /* pending */ AND attempt = 0
        LIMIT 1 FOR UPDATE) a OFFSET 0) x
WHERE run.ctid = x.address
