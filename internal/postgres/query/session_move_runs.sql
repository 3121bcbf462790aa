-- Worker session: gives the runs $1 to $4, with attempts $5, of the sessions $6 to session $7. Only runs that workers
-- of queue $8 pull: no worker gets what a node delivers or what belongs to another queue.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt
)
UPDATE run SET session_id = $7
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM k, LATERAL (
        SELECT r.ctid AS address FROM run r
        WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
          AND r.attempt = k.attempt AND r.state = 1 /* running */ AND r.session_id = ANY ($6)
          AND r.handler IS NOT NULL AND r.queue_id = $8
        LIMIT 1 FOR UPDATE) x))
RETURNING partition, job_id, due_at, seq, attempt
