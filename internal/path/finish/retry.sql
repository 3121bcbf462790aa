-- Retry: makes live runs ($1 to $4), which are locked, pending again at $5 and frees their permits. A run takes the
-- definition that its job has now, because an edit could not change it while it was live. Nothing that an earlier
-- statement read of the job is good enough: an edit may have committed since. If the job is gone, a node ends the
-- run at its next delivery. It returns the runs as they are now, with their place in $1, and whether workers pull them.
-- The key of the run is decided now, if it was not: the target may have received the run under its id. It did not if
-- the job that was claimed has an expression, because the key is then stored before anything is delivered.
--   $6  the attempt, as a JSON object, to be kept with the run (the newest 20); NULL: it is not recorded. Its start and
--       its session are added, with what the session may not say when the run is read: its name, and if it is a worker.
--   $7  whether the attempt does not count against max_attempts
--   $8  why the run was deferred; NULL: it was not. That the target of a node was busy says nothing about a worker. A
--       run that was never delivered is late since the first time it could have started.
--   $9  when the attempt started
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::timestamptz[]) AS run_at, unnest($6::text[]) AS record,
           unnest($7::boolean[]) AS free, unnest($8::text[]) AS deferred_reason,
           unnest($9::timestamptz[]) AS started_at,
           generate_subscripts($1::smallint[], 1) AS n
), ended AS MATERIALIZED (
    SELECT k.*, r.ctid AS address, r.queue_id, r.queue_permit, r.concurrency_key, r.key_permit,
           k.record::jsonb || CASE WHEN k.record IS NOT NULL THEN jsonb_build_object(
               'started_at', k.started_at, 'session', r.session_id,
               'node', (SELECT s.name FROM session s WHERE s.id = r.session_id), 'worker', r.handler IS NOT NULL)
           END AS attempt
    FROM k, LATERAL (
        SELECT ctid, * FROM run
        WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq LIMIT 1) r
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
)
UPDATE run
SET state = 0 /* pending */, run_at = e.run_at, session_id = NULL, claimed_at = NULL, expires_at = NULL,
    queue_permit = NULL, key_permit = NULL, percent = NULL, progress = NULL,
    deferred_reason = CASE WHEN j.handler IS NULL THEN e.deferred_reason END,
    deferred_from = CASE WHEN j.handler IS NULL AND e.deferred_reason IS NOT NULL AND run.attempts IS NULL
        THEN coalesce(run.deferred_from, run.run_at) END,
    version = coalesce(j.version, run.version), priority = coalesce(j.priority, run.priority),
    admit = coalesce(j.admit, run.admit), queue_id = coalesce(j.queue_id, run.queue_id),
    concurrency_key = j.concurrency_key, concurrency_max = j.concurrency_max,
    handler = j.handler, needs_sweep = j.handler IS NULL,
    idempotency_key = CASE WHEN run.version = j.version AND j.idempotency_key IS NOT NULL THEN run.idempotency_key
        ELSE coalesce(run.idempotency_key, '') END,
    free_attempts = CASE WHEN e.free THEN coalesce(run.free_attempts, 0) + 1 ELSE run.free_attempts END,
    attempts = CASE WHEN e.attempt IS NULL THEN run.attempts ELSE (
        SELECT jsonb_agg(a ORDER BY n) FROM (
            SELECT a, n FROM jsonb_array_elements(
                coalesce(run.attempts, '[]') || jsonb_build_array(e.attempt)) WITH ORDINALITY x (a, n)
            ORDER BY n DESC LIMIT 20) y) END
FROM ended e LEFT JOIN LATERAL (
    SELECT version, priority, admit, queue_id, concurrency_key, concurrency_max, handler, idempotency_key FROM job
    WHERE partition = e.partition AND id = e.job_id LIMIT 1) j ON true
WHERE run.ctid = e.address
RETURNING e.n, run.version, run.run_at, run.state, run.attempt, coalesce(run.free_attempts, 0), run.priority,
          run.origin, run.queue_id, coalesce(run.concurrency_key, 0), coalesce(run.concurrency_max, 0),
          run.handler IS NOT NULL
