-- Plan: takes planned runs off what jobs with max_runs have left, and finishes those that have none left.
-- $1 partitions, $2 jobs, $3 number of runs of each, $4 the instant of the plan.
UPDATE job SET (runs_left, state, finished_at) = (
    SELECT l, CASE WHEN l <= 0 THEN 3 /* finished */ ELSE job.state END,
           CASE WHEN l <= 0 THEN coalesce(job.finished_at, $4::timestamptz) ELSE job.finished_at END
    FROM (SELECT runs_left - ($3::integer[])[array_position($2::uuid[], id)] AS l OFFSET 0) x)
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM job WHERE partition = k.partition AND id = k.id LIMIT 1 FOR UPDATE) x))
