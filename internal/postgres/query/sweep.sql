-- Sweep: lists the pending runs of partitions ($1) that someone other than their planner created or moved, with a run
-- time from $2 to $3, at most $4 of each partition, except those that a restore holds. Both ends are bounded, so that
-- a held snapshot cannot make it slower and slower.
-- Index: run_needs_sweep.
SELECT r.* FROM unnest($1::smallint[]) p, LATERAL (
    SELECT partition, job_id, due_at, seq, version, run_at, state, attempt, priority, origin, queue_id,
           coalesce(concurrency_key, 0), coalesce(concurrency_max, 0)
    FROM run
    WHERE needs_sweep AND partition = p AND run_at BETWEEN $2 AND $3 AND state = 0 /* pending */ AND handler IS NULL
      AND due_at >= (SELECT held_until FROM cluster WHERE only_row)
    LIMIT $4::bigint OFFSET 0) r
