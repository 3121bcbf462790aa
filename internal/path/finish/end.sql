-- End: moves one run ($1 to $4), which is locked, to history and frees its permits. $5 when it ended, $6 how (1
-- succeeded, 2 failed, 3 cancelled, 4 skipped), $7 status of the target's protocol, $8 reason, $9 message, $10 result.
-- The target of a live run may have received it, so from now on its key is decided.
WITH ended AS (
    DELETE FROM run WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4 RETURNING *
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
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, session_id, queue_id, reason, message, attempts, idempotency_key, result,
                         trace, payload)
SELECT partition, seq, version, job_id, due_at, run_at, /* started */ claimed_at, $5, $6, attempt, origin,
       $7, session_id, queue_id, nullif($8, ''), nullif($9, ''), attempts,
       CASE WHEN state <> 0 /* live */ THEN coalesce(idempotency_key, '') ELSE idempotency_key END, nullif($10, ''),
       trace, payload
FROM ended
