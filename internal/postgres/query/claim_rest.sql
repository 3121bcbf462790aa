-- Claim: returns those of the runs $1 to $4 that a claim left and that are still pending for a node.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
)
SELECT r.* FROM k, LATERAL (
    SELECT partition, job_id, due_at, seq FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
      AND state = 0 /* pending */ AND handler IS NULL
    LIMIT 1) r
