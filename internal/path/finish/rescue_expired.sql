-- Rescue: locks runs for workers that have not started and whose deadline has passed. A worker's request would skip
-- them, but no worker may ask. $1 partitions, $2 maximum number. Runs that came due while no node served the partition
-- wait until CatchUp has decided them, and runs that a restore holds wait for the operator. Index: run_deadline.
SELECT r.partition, r.job_id, r.due_at, r.seq, r.queue_id, r.origin, r.deadline, now()
FROM (SELECT id, missed_from, missed_until FROM unnest($1::smallint[]) k, LATERAL (
          SELECT * FROM partition WHERE id = k LIMIT 1) x) p, LATERAL (
    SELECT r.*, j.deadline
    FROM run r, LATERAL (SELECT deadline FROM job WHERE partition = r.partition AND id = r.job_id LIMIT 1) j
    WHERE r.partition = p.id AND r.due_at < now() AND coalesce(r.handler, '') <> '' AND r.admit & 4 = 4 /* in time */
      AND r.state = 0 /* pending */ AND r.attempts IS NULL AND r.origin NOT IN (2, 4) /* backfill, redrive */
      AND r.due_at + j.deadline < now() AND belfry_clock_trusted()
      AND (p.missed_from IS NULL OR r.due_at < p.missed_from OR r.due_at >= p.missed_until)
      AND r.due_at >= (SELECT held_until FROM cluster WHERE only_row)
    LIMIT $2 FOR UPDATE OF r SKIP LOCKED) r
LIMIT $2
