-- Retry: makes one live run ($1 to $4), which is locked, pending again at $5 and frees its permits. The run takes the
-- definition that its job has now, because an edit could not change it while it was live. Nothing that an earlier
-- statement read of the job is good enough: an edit may have committed since. If the job is gone, a node ends the
-- run at its next delivery. It returns the run as it is now, and whether workers pull it.
--   $6  the attempt, as a JSON object, to be kept with the run (the newest 20); NULL: it is not recorded. Its start and
--       its session are added, with what the session may not say when the run is read: its name, and if it is a worker.
--   $7  whether the attempt does not count against max_attempts
--   $8  why the run was deferred; NULL: it was not. That the target of a node was busy says nothing about a worker.
WITH ended AS (
    SELECT * FROM run WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4
), freed AS (
    DELETE FROM permit WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM (SELECT 1::smallint /* queue */ AS kind, queue_id::bigint AS id, queue_permit AS number
              FROM ended WHERE queue_permit IS NOT NULL
              UNION ALL
              SELECT 2 /* concurrency key */, concurrency_key, key_permit
              FROM ended WHERE key_permit IS NOT NULL) e, LATERAL (
            SELECT p.ctid AS address FROM permit p
            WHERE p.limit_kind = e.kind AND p.limit_id = e.id AND p.number = e.number LIMIT 1) x))
), kept AS MATERIALIZED (
    SELECT $6::jsonb || jsonb_build_object(
        'started_at', greatest(e.claimed_at, e.run_at), 'session', e.session_id,
        'node', (SELECT s.name FROM session s WHERE s.id = e.session_id), 'worker', e.handler IS NOT NULL) AS attempt
    FROM ended e
)
UPDATE run
SET state = 0 /* pending */, run_at = $5, session_id = NULL, claimed_at = NULL, expires_at = NULL,
    queue_permit = NULL, key_permit = NULL, percent = NULL, progress = NULL,
    deferred_reason = CASE WHEN j.handler IS NULL THEN $8::text END,
    version = coalesce(j.version, run.version), priority = coalesce(j.priority, run.priority),
    admit = coalesce(j.admit, run.admit), queue_id = coalesce(j.queue_id, run.queue_id),
    concurrency_key = j.concurrency_key, concurrency_max = j.concurrency_max,
    handler = j.handler, needs_sweep = j.handler IS NULL,
    free_attempts = CASE WHEN $7::boolean THEN coalesce(run.free_attempts, 0) + 1 ELSE run.free_attempts END,
    attempts = CASE WHEN $6::jsonb IS NULL THEN run.attempts ELSE (
        SELECT jsonb_agg(a ORDER BY n) FROM (
            SELECT a, n FROM jsonb_array_elements(
                coalesce(run.attempts, '[]') || (SELECT jsonb_build_array(attempt) FROM kept)) WITH ORDINALITY x (a, n)
            ORDER BY n DESC LIMIT 20) y) END
FROM (SELECT) always LEFT JOIN LATERAL (
    SELECT version, priority, admit, queue_id, concurrency_key, concurrency_max, handler FROM job
    WHERE partition = $1 AND id = $2 LIMIT 1) j ON true
WHERE run.partition = $1 AND run.job_id = $2 AND run.due_at = $3 AND run.seq = $4
RETURNING run.version, run.run_at, run.state, run.attempt, coalesce(run.free_attempts, 0), run.priority, run.origin,
          run.queue_id, coalesce(run.concurrency_key, 0), coalesce(run.concurrency_max, 0), run.handler IS NOT NULL
