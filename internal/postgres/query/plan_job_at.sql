-- Plan: finds the job up to which one transaction plans a due time that has too many jobs. $1 partition, $2 cursor, $3
-- the job after which to begin, $4 how many jobs to pass over. Index: job_cursor; see plan_runs.sql.
SELECT id FROM job
WHERE partition = $1 AND cursor_id = $2 AND (cursor_id, id) > ($2, $3) AND state = 1 /* active */
ORDER BY cursor_id, id OFFSET $4 LIMIT 1
