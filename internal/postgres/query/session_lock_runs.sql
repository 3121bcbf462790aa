-- Worker session: locks those of the runs $1 to $4 that are leased to the sessions $5 of queue $6. It is a statement of
-- its own, because only the next one (session_move_runs.sql) sees what another transaction wrote while this one waited.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
)
SELECT FROM k, LATERAL (
    SELECT FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.state = 1 /* running */ AND r.session_id = ANY ($5) AND r.handler IS NOT NULL AND r.queue_id = $6
    LIMIT 1 FOR UPDATE OF r) x
