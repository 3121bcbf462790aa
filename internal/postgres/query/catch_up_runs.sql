-- Catch up: lists the runs that were planned, have not started, and came due while no node served their partition, and
-- the cursor of their job. $1 partitions, $2 and $3 since when and until when, $4 maximum number. The operator
-- decides about runs that a restore of the database holds. The primary key reads each partition once, in the order of
-- jobs.
SELECT r.partition, r.job_id, r.due_at, j.cursor_id
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::timestamptz[]) AS missed_from,
             unnest($3::timestamptz[]) AS missed_until) p, LATERAL (
    SELECT partition, job_id, due_at FROM run
    WHERE partition = p.partition AND due_at >= p.missed_from AND due_at < p.missed_until AND seq = 0
      AND state = 0 /* pending */ AND attempt = 0 AND origin = 0 /* schedule */
      AND due_at >= (SELECT held_until FROM cluster WHERE only_row)
    ORDER BY job_id, due_at LIMIT $4) r, LATERAL (
    SELECT cursor_id FROM job WHERE partition = r.partition AND id = r.job_id LIMIT 1) j
LIMIT $4
