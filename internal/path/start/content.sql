-- Claim: reads what belfry_attempt left out because it is large: target and payload of the runs
-- $1 to $4, which are leased to the caller. $5 are their versions: if the job was edited since, the definition of that
-- version has them.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::integer[]) AS version,
           generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT k.n, coalesce(j.target_config, ''), coalesce(r.payload, j.payload, ''), r.payload IS NOT NULL,
       coalesce(v.definition, '')
FROM k
LEFT JOIN LATERAL (
    SELECT payload FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq LIMIT 1) r ON true
LEFT JOIN LATERAL (
    SELECT version, target_config, payload FROM job WHERE partition = k.partition AND id = k.job_id LIMIT 1) j ON true
LEFT JOIN LATERAL (
    SELECT definition FROM job_version
    WHERE partition = k.partition AND job_id = k.job_id AND version = k.version
      AND j.version IS DISTINCT FROM k.version LIMIT 1) v ON true
