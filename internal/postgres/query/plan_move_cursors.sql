-- Plan: advances cursors, which are locked. $1 partitions, $2 ids (unique in a database), $3 next due times; NULL:
-- the schedule has ended. $4 when the next caught-up run may start, $5 the last job that has its run of the next due
-- time, $6 the origin of that run, $7 whether the cursor could not be planned before
-- and has not caught up yet. Rows are updated by their address: PostgreSQL may believe that a table is empty and
-- would then read all of it for each row that is named.
UPDATE cursor
SET (next_due_at, paced_to, after_job, after_origin, broken_at, retry_at, problem) = (
    SELECT ($3::timestamptz[])[n], ($4::timestamptz[])[n], ($5::uuid[])[n], ($6::smallint[])[n],
           CASE WHEN ($7::boolean[])[n] THEN broken_at END, NULL::timestamptz,
           CASE WHEN ($7::boolean[])[n] THEN problem END
    FROM (SELECT array_position($2::bigint[], id) AS n OFFSET 0) x)
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1) x))
