-- Admit: locks one pending run that needs a decision ($1 to $4) and reads what job.Admit asks for: the policy, what
-- else the job is doing, and the limits the run falls under. $5 is the session that wants to start it, $6 the lead,
-- $7 whether a worker pulls it. The owner of the partition admits runs that nodes deliver; runs for workers are
-- admitted under the lock of their queue, by a session of that queue. Runs that came due while no node served the
-- partition wait until CatchUp has decided them, and runs for workers that may be such runs wait for an owner.
SELECT r.ctid::text, r.run_at, r.attempt, r.attempt > 0 AND r.attempts IS NULL /* only deferred */, r.origin,
       r.priority, r.queue_id, coalesce(r.concurrency_key, 0), coalesce(r.concurrency_max, 1),
       r.concurrency_key IS NOT NULL OR coalesce((SELECT limited FROM queue WHERE id = r.queue_id), false),
       coalesce(r.handler, ''), j.state, j.policy, now(),
       (SELECT count(*) FROM run o
        WHERE o.partition = r.partition AND o.job_id = r.job_id AND o.state <> 0 /* live */),
       EXISTS (SELECT FROM run o
               WHERE o.partition = r.partition AND o.job_id = r.job_id AND o.state <> 0 /* live */
                 AND greatest(o.claimed_at, o.run_at) <= r.due_at),
       (SELECT count(*) FROM run o
        WHERE o.partition = r.partition AND o.job_id = r.job_id AND o.state = 0 /* pending */
          AND (o.due_at, o.seq) < (r.due_at, r.seq) AND o.run_at <= now() + $6::interval
          AND (o.due_at < (SELECT held_from FROM cluster WHERE only_row)
               OR o.due_at >= (SELECT held_until FROM cluster WHERE only_row)))
FROM run r JOIN job j ON j.partition = r.partition AND j.id = r.job_id
WHERE r.partition = $1 AND r.job_id = $2 AND r.due_at = $3 AND r.seq = $4
  AND r.state = 0 /* pending */ AND r.run_at <= now() + $6::interval
  AND EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now()) AND belfry_clock_trusted()
  AND (r.handler IS NOT NULL) = $7::boolean
  AND (r.due_at < (SELECT held_from FROM cluster WHERE only_row)
       OR r.due_at >= (SELECT held_until FROM cluster WHERE only_row))
  AND CASE WHEN r.handler IS NULL
           THEN EXISTS (SELECT FROM partition
                        WHERE id = $1 AND owner = $5
                          AND (missed_from IS NULL OR r.due_at < missed_from OR r.due_at >= missed_until))
           ELSE r.queue_id IS NOT DISTINCT FROM (SELECT queue_id FROM session WHERE id = $5)
                AND (r.due_at >= now() - interval '10 s' OR r.origin <> 0 /* schedule */ OR r.attempt > 0 OR EXISTS (
                    SELECT FROM partition p JOIN session s ON s.id = p.owner AND s.expires_at > now()
                    WHERE p.id = $1
                      AND (missed_from IS NULL OR r.due_at < missed_from OR r.due_at >= missed_until))) END
FOR UPDATE OF r SKIP LOCKED
