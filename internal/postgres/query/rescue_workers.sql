-- Rescue for workers: finds the runs that are leased to sessions that have ended. $1 queues, $2 sessions, $3 maximum
-- number. No index has the session: all runs that workers of these queues pull are read. Index: run_feed.
SELECT r.partition, r.job_id, r.due_at, r.seq, r.attempt, r.session_id FROM run r
WHERE r.handler IS NOT NULL AND r.queue_id = ANY ($1) AND r.state = 1 /* running */ AND r.session_id = ANY ($2)
LIMIT $3
