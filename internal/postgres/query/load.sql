-- Load: lists the pending runs of partitions ($1) up to a run time ($2): what a new owner has to know, and what the
-- sweep for overdue runs checks. The sum keeps PostgreSQL from the index run_due, of which it would read all queues.
SELECT partition, job_id, due_at, seq, version, run_at, state, attempt, priority, origin, queue_id,
       coalesce(concurrency_key, 0), coalesce(concurrency_max, 0)
FROM run
WHERE partition = ANY ($1) AND state = 0 /* pending */ AND run_at + interval '0' <= $2 AND handler IS NULL
  AND due_at >= (SELECT held_until FROM cluster WHERE only_row)
