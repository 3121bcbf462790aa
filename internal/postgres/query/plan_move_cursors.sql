-- Plan: advances cursors, which are locked. $1 partitions, $2 ids (unique in a database), $3 next due times; NULL:
-- the schedule has ended. Rows are updated by their address: PostgreSQL may believe that a table is empty and would
-- then read all of it for each row that is named.
UPDATE cursor
SET next_due_at = ($3::timestamptz[])[array_position($2::bigint[], id)], broken_at = NULL, retry_at = NULL,
    problem = NULL
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1) x))
