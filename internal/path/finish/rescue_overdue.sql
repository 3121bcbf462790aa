-- Rescue: finds accepted runs whose target did not report in time. $1 partitions, $2 from when on, $3 maximum number.
-- Index: run_expires.
SELECT r.* FROM unnest($1::smallint[]) p, LATERAL (
    SELECT partition, job_id, due_at, seq, attempt, session_id FROM run
    WHERE partition = p AND expires_at BETWEEN $2 AND now() AND state = 2 /* waiting */ OFFSET 0) r
LIMIT $3
