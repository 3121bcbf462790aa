-- Complete: locks the runs of the attempts named ($1 to $5) and reads what Decide asks for. $6 is the session that
-- must have the attempt.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt, unnest($6::uuid[]) AS session_id,
           generate_subscripts($1::smallint[], 1) AS n
)
SELECT k.n, r.attempt, coalesce(r.free_attempts, 0), r.origin, r.queue_id, j.policy, j.namespace_id, now(),
       greatest(r.claimed_at, r.run_at), coalesce(r.trace, ''), greatest(r.claimed_at - r.run_at, '0')
FROM k, LATERAL (
    SELECT * FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
      AND attempt = k.attempt AND state <> 0 /* live */ AND session_id = k.session_id
    LIMIT 1 FOR UPDATE) r
LEFT JOIN LATERAL (SELECT * FROM job WHERE partition = r.partition AND id = r.job_id LIMIT 1) j ON true
