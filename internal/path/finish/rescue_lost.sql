-- Rescue: finds attempts that no process will report on. $1 partitions, $2 where rescue_overdue.sql begins, $3 maximum
-- number. It reads all live runs of the partitions, so it runs only when a session has ended, for partitions that are
-- new to this node, and once a minute.
--   1. attempts whose session has ended. One that has only expired may be renewed and go on.
--   2. accepted runs that were overdue before rescue_overdue.sql looks
--   3. attempts of workers that are alive and have forgotten them: a heartbeat ends only what it names. The timeout is
--      that of the version that the run was claimed with.
SELECT partition, job_id, due_at, seq, attempt, session_id FROM run
WHERE partition = ANY ($1) AND (
    state = 1 /* running */ AND NOT EXISTS (SELECT FROM session WHERE id = run.session_id AND expires_at > '-infinity')
    OR state = 2 /* waiting */ AND expires_at < $2
    OR state = 1 /* running */ AND handler IS NOT NULL AND claimed_at < now() - interval '1 min'
        AND claimed_at + interval '1 min' + interval '1 ms' * coalesce((
            SELECT timeout_ms FROM job_version v
            WHERE v.partition = run.partition AND v.job_id = run.job_id AND v.version = run.version), 0) <= now())
LIMIT $3
