-- Permits: locks limits, as far as no other transaction has them. It does not wait: a caller that does not get a lock
-- retries, and no queue blocks another. $1 kinds (1 queue, 2 concurrency key), $2 ids. Queues without a limit are
-- left out before any lock is tried, hence MATERIALIZED. If the namespace of a queue has a quota of runs, the limit of
-- the queue is locked only together with that quota.
WITH l AS MATERIALIZED (
    SELECT x.kind, x.id, CASE WHEN q.max_runs_per_minute IS NOT NULL THEN q.namespace_id END AS quota_of
    FROM (SELECT unnest($1::smallint[]) AS kind, unnest($2::bigint[]) AS id) x
    LEFT JOIN LATERAL (
        SELECT id, namespace_id, max_runs_per_minute FROM queue
        WHERE x.kind = 1 /* queue */ AND id = x.id::integer AND limited LIMIT 1) q ON true
    WHERE x.kind = 2 /* concurrency key */ OR q.id IS NOT NULL
)
SELECT kind, id FROM l
WHERE pg_try_advisory_xact_lock(hashint8extended(id, kind))
  AND (quota_of IS NULL OR pg_try_advisory_xact_lock(uuid_hash_extended(quota_of, 3)))
