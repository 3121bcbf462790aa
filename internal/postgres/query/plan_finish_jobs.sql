-- Plan: finishes the jobs of cursors whose schedule has ended: the last occurrence has been planned.
-- $1 partitions, $2 cursors, $3 the instant of the plan, $4 the last job. Index: job_cursor; see plan_runs.sql.
UPDATE job SET state = 3 /* finished */, finished_at = $3::timestamptz
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id) k, LATERAL (
        SELECT ctid AS address FROM job
        WHERE partition = k.partition AND cursor_id = k.cursor_id AND (cursor_id, id) <= (k.cursor_id, $4)
          AND state = 1 /* active */
        FOR UPDATE) x))
