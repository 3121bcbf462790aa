-- Admit: locks those of the pending runs $1 to $4 that may start, as far as belfry_may_start knows, and reads what
-- Decide asks for: the policy, what else the job is doing, and the limits the run falls under. Session $5 wants to
-- start them, or workers of queue $7, whose sessions the transaction has locked (NULL: a node). $6 is the lead, $8
-- job.MaxQueued. Two runs of one job must not be among them if its policy looks at its other runs. Runs that come due
-- while no node serves the partition wait until CatchUp has decided them. If a run is pending for a node and is not
-- locked, it returns when the run may start, and whether that is within the lead and a little more: then this node has
-- to ask again. The policy of a run that starts whatever its job is doing is left out. The payload of the job must not
-- be a column of j: the lock of r reads each row of j as a whole. See claim.sql for the form.
WITH c AS MATERIALIZED (
    SELECT held_until, belfry_clock_trusted() AND (
               $7::integer IS NOT NULL OR EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now())) AS allowed
    FROM cluster WHERE only_row
), k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, generate_subscripts($1::smallint[], 1) - 1 AS n, held_until, allowed
    FROM c
)
SELECT k.n, x.address IS NOT NULL, p.run_at, coalesce(p.run_at <= now() + $6::interval + interval '5 s', false), now(),
       coalesce(x.address, ''), coalesce(x.run_at, 'epoch'), coalesce(x.attempt, 0), coalesce(x.deferred, false),
       coalesce(x.origin, 0), coalesce(x.priority, 0), coalesce(x.queue_id, 0), coalesce(x.concurrency_key, 0),
       coalesce(x.concurrency_max, 1), coalesce(x.limited, false), coalesce(x.handler, ''), coalesce(x.size, 0),
       coalesce(x.state, 0), coalesce(x.admit, 0), x.policy, coalesce(x.running, 0), coalesce(x.busy, false),
       coalesce(x.ahead, 0)
FROM k LEFT JOIN LATERAL (
    SELECT r.ctid::text AS address, r.run_at, r.attempt, r.attempt > 0 AND r.attempts IS NULL AS deferred, r.origin,
           r.priority, r.queue_id, r.concurrency_key, r.concurrency_max,
           r.concurrency_key IS NOT NULL
               OR coalesce((SELECT limited FROM queue WHERE id = r.queue_id), false) AS limited,
           r.handler, coalesce(octet_length(r.payload), j.size) AS size, j.state, r.admit,
           CASE WHEN r.admit <> 0 /* freely */ THEN j.policy END AS policy,
           CASE WHEN r.admit & 3 <> 0 /* freely */ THEN (
               SELECT count(*) FROM run o
               WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0 /* live */) END AS running,
           r.admit & 3 <> 0 /* freely */
               AND EXISTS (SELECT FROM run o
                   WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0 /* live */
                     AND greatest(o.claimed_at, o.run_at) <= r.due_at) AS busy,
           CASE WHEN r.admit & 3 <> 0 /* freely */ THEN (
               SELECT count(*) FROM (
                   SELECT FROM run o
                   WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state = 0 /* pending */
                     AND (o.due_at, o.seq) < (k.due_at, k.seq) AND o.run_at <= now() + $6::interval
                     AND o.due_at >= k.held_until
                   LIMIT $8) a) END AS ahead
    FROM run r
    LEFT JOIN LATERAL (
        SELECT state, policy, octet_length(payload) AS size
        FROM job WHERE partition = k.partition AND id = k.job_id LIMIT 1) j ON true,
    LATERAL belfry_may_start(
        k.partition, r.due_at, r.handler, r.queue_id, r.origin, r.attempt, k.held_until, $5, $7) may
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.state = 0 /* pending */ AND r.run_at <= now() + $6::interval AND k.allowed
    LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x ON true
LEFT JOIN LATERAL (
    SELECT run_at FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq
      AND state = 0 /* pending */ AND handler IS NULL AND x.address IS NULL
    LIMIT 1) p ON true
