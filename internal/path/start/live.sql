-- Admit: locks the live runs of the jobs $2 in the partitions $1, which others replace, except those that another
-- transaction has: a change of the job locks them before the pending runs that Admit has. See claim.sql for the form.
WITH k AS MATERIALIZED (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id)
SELECT x.* FROM k, LATERAL (
    SELECT partition, job_id, due_at, seq, queue_id, attempt, coalesce(trace, '') FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND state <> 0 /* live */
    ORDER BY due_at, seq FOR UPDATE SKIP LOCKED) x
