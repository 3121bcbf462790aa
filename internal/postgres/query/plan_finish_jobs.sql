-- Plan: ends the jobs of cursors whose schedule has ended: the last occurrence has been planned. $1 partitions, $2
-- cursors, $3 the instant after that occurrence, $4 the instant of the plan, $5 the last job. A job is finished
-- immediately if its end has come. FinishJobs finishes the others when it comes. Most one-offs have that end since they
-- were created, and are only looked up. Index: job_cursor; see plan_runs.sql.
UPDATE job SET (end_at, state, finished_at) = (
    SELECT least(end_at, greatest(e, $4)), CASE WHEN e <= $4 THEN 3 /* finished */ ELSE job.state END,
           CASE WHEN e <= $4 THEN $4::timestamptz END
    FROM (SELECT ($3::timestamptz[])[array_position($2::bigint[], cursor_id)] AS e OFFSET 0) x)
WHERE ctid = ANY (ARRAY(
    SELECT x.address
    FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS cursor_id,
                 unnest($3::timestamptz[]) AS end_at) k, LATERAL (
        SELECT ctid AS address FROM job
        WHERE partition = k.partition AND cursor_id = k.cursor_id AND (cursor_id, id) <= (k.cursor_id, $5)
          AND state = 1 /* active */ AND (k.end_at <= $4 OR coalesce(end_at, 'infinity') > k.end_at)
        FOR UPDATE) x))
