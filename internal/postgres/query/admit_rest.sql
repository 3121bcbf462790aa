-- Admit: reads when a pending run that admit.sql did not return may start, and whether that is within the lead $5 and a
-- little more: then this node has to ask again.
SELECT run_at, run_at <= now() + $5::interval + interval '5 s' FROM run
WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4 AND state = 0 /* pending */ AND handler IS NULL
