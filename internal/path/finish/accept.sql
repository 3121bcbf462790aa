-- Complete: one run ($1 to $4) whose target accepted it and reports later, by $5 at the latest. $6: when
-- the attempt started.
UPDATE run SET state = 2 /* waiting */, expires_at = $5, claimed_at = $6
WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4
