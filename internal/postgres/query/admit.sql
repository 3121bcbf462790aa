-- Admit: locks those of the pending runs $1 to $4, of different jobs, that need a decision, and reads what job.Admit
-- asks for: the policy, what else the job is doing, and the limits the run falls under. $5 is the session that wants to
-- start them, $6 the lead, $7 whether a worker pulls them, $8 job.MaxQueued. The owner of the partition admits runs
-- that nodes deliver; runs for workers are admitted under the lock of their queue, by a session of that queue. Runs
-- that came due while no node served the partition wait until CatchUp has decided them, and runs for workers that may
-- be such runs wait for an owner. If a run is pending for a node and not locked, it returns when the run may start, and
-- whether that is within the lead and a little more: then this node has to ask again. See claim.sql for the form.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT k.n, x.address IS NOT NULL, p.run_at, coalesce(p.run_at <= now() + $6::interval + interval '5 s', false), now(),
       coalesce(x.address, ''), coalesce(x.run_at, 'epoch'), coalesce(x.attempt, 0), coalesce(x.deferred, false),
       coalesce(x.origin, 0), coalesce(x.priority, 0), coalesce(x.queue_id, 0), coalesce(x.concurrency_key, 0),
       coalesce(x.concurrency_max, 1), coalesce(x.limited, false), coalesce(x.handler, ''), coalesce(x.state, 0),
       coalesce(x.policy, ''), coalesce(x.running, 0), coalesce(x.busy, false), coalesce(x.ahead, 0)
FROM k LEFT JOIN LATERAL (
    SELECT r.ctid::text AS address, r.run_at, r.attempt, r.attempt > 0 AND r.attempts IS NULL AS deferred, r.origin,
           r.priority, r.queue_id, r.concurrency_key, r.concurrency_max,
           r.concurrency_key IS NOT NULL
               OR coalesce((SELECT limited FROM queue WHERE id = r.queue_id), false) AS limited,
           r.handler, j.state, j.policy,
           (SELECT count(*) FROM run o
            WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0 /* live */) AS running,
           EXISTS (SELECT FROM run o
                   WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0 /* live */
                     AND greatest(o.claimed_at, o.run_at) <= r.due_at) AS busy,
           (SELECT count(*) FROM (
                SELECT FROM run o
                WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state = 0 /* pending */
                  AND (o.due_at, o.seq) < (k.due_at, k.seq) AND o.run_at <= now() + $6::interval
                  AND o.due_at >= (SELECT held_until FROM cluster WHERE only_row)
                LIMIT $8) a) AS ahead
    FROM run r, LATERAL (SELECT state, policy FROM job WHERE partition = k.partition AND id = k.job_id LIMIT 1) j
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.state = 0 /* pending */ AND r.run_at <= now() + $6::interval
      AND EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now()) AND belfry_clock_trusted()
      AND (r.handler IS NOT NULL) = $7::boolean
      AND r.due_at >= (SELECT held_until FROM cluster WHERE only_row)
      AND CASE WHEN r.handler IS NULL
               THEN EXISTS (SELECT FROM partition
                            WHERE id = k.partition AND owner = $5
                              AND (missed_from IS NULL OR r.due_at < missed_from OR r.due_at >= missed_until))
               ELSE r.queue_id IS NOT DISTINCT FROM (SELECT queue_id FROM session WHERE id = $5)
                    AND (r.due_at >= now() - interval '10 s' OR r.origin <> 0 /* schedule */ OR r.attempt > 0
                         OR EXISTS (
                        SELECT FROM partition p JOIN session s ON s.id = p.owner AND s.expires_at > now()
                        WHERE p.id = k.partition
                          AND (missed_from IS NULL OR r.due_at < missed_from OR r.due_at >= missed_until))) END
    LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x ON true
LEFT JOIN LATERAL (
    SELECT run_at FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
      AND state = 0 /* pending */ AND handler IS NULL AND x.address IS NULL
    LIMIT 1) p ON true
