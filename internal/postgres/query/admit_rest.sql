-- Admit: says whether a run that admit.sql did not return needs no further question from this node. $5 is the lead.
SELECT NOT EXISTS (
    SELECT FROM run
    WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4
      AND state = 0 /* pending */ AND handler IS NULL AND run_at <= now() + $5::interval + interval '5 s')
