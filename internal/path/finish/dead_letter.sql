-- Complete: keeps a run that failed permanently ($1 to $4) as a dead letter. $5 when, $6 reason, $7 message, $8 status,
-- $9 cause, $10 whether the attempt had an idempotency key. A run that failed, was redriven and failed again replaces
-- its dead letter.
INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, payload, queue_id,
                         idempotency_key, status, cause)
SELECT partition, job_id, due_at, seq, $5, attempt, $6, $7, payload, queue_id,
       CASE WHEN $10 THEN coalesce(idempotency_key, '') ELSE idempotency_key END, $8, $9
FROM run WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4
ON CONFLICT (partition, job_id, due_at, seq) DO UPDATE
SET failed_at = excluded.failed_at, attempt = excluded.attempt, reason = excluded.reason, message = excluded.message,
    idempotency_key = excluded.idempotency_key, status = excluded.status, cause = excluded.cause
