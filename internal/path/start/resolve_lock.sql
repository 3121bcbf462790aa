-- Resolve: locks those of the runs $1 to $4 that are leased to session $5. It is a statement of its own, because only
-- the next statement sees what another transaction wrote while this one waited for the lock.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
)
SELECT FROM k, LATERAL (
    SELECT FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.state = 1 /* running */ AND r.session_id = $5
    LIMIT 1 FOR UPDATE OF r) x
