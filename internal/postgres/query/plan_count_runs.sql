-- Plan: takes planned runs off what jobs with max_runs have left. Those that have none left end after the last of them,
-- and FinishJobs finishes them then. $1 partitions, $2 jobs, $3 number of runs of each, $4 the instant after the last.
UPDATE job SET (runs_left, end_at) = (
    SELECT runs_left - ($3::integer[])[n],
           CASE WHEN runs_left <= ($3::integer[])[n] THEN least(end_at, ($4::timestamptz[])[n]) ELSE end_at END
    FROM (SELECT array_position($2::uuid[], id) AS n OFFSET 0) x)
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM job WHERE partition = k.partition AND id = k.id LIMIT 1 FOR UPDATE) x))
