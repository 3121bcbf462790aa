-- Discard: removes the dead letters $1 to $4.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
)
DELETE FROM dead_letter USING k
WHERE dead_letter.partition = k.partition AND dead_letter.job_id = k.job_id AND dead_letter.due_at = k.due_at
  AND dead_letter.seq = k.seq
