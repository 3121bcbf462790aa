-- Permits: reads the capacity of limits: what a queue allows, how many live runs have a permit, the rate's tokens, the
-- first run that waits for it on another node, and the quota of runs of the queue's namespace. $1 kinds (1 queue, 2
-- concurrency key), $2 ids, $3 the oldest permit that was alive when this process last counted (older ones have ended,
-- and their dead index entries need not be read again), $4 the session that asks.
WITH l AS MATERIALIZED (
    SELECT x.kind, x.id, x.low, q.max_running, q.rate, q.rate_seconds, q.burst, q.max_runs_per_minute, q.namespace_id
    FROM (SELECT unnest($1::smallint[]) AS kind, unnest($2::bigint[]) AS id, unnest($3::bigint[]) AS low) x
    LEFT JOIN LATERAL (
        SELECT * FROM queue WHERE x.kind = 1 /* queue */ AND id = x.id::integer AND limited LIMIT 1) q ON true
    WHERE x.kind = 2 /* concurrency key */ OR q.id IS NOT NULL
)
SELECT l.kind, l.id, coalesce(l.max_running, 0), coalesce(l.rate, 0), coalesce(l.rate_seconds, 0),
       coalesce(l.burst, 0), h.running, h.oldest, b.tokens, b.refilled_at, a.priority, a.run_at,
       coalesce(l.namespace_id, '00000000-0000-0000-0000-000000000000'), coalesce(l.max_runs_per_minute, 0),
       n.tokens, n.refilled_at
FROM l
CROSS JOIN LATERAL (
    SELECT count(*) AS running, min(number) AS oldest FROM (
        SELECT number FROM permit
        WHERE limit_kind = l.kind AND limit_id = l.id AND number >= l.low
        ORDER BY number LIMIT 10001 /* no limit is higher than 10,000, and a queue with only a rate has none */) x) h
LEFT JOIN LATERAL (
    SELECT tokens, refilled_at FROM queue_rate
    WHERE l.rate IS NOT NULL AND queue_id = l.id::integer LIMIT 1) b ON true
LEFT JOIN LATERAL (
    SELECT priority, run_at FROM queue_waiter
    WHERE l.kind = 1 /* queue */ AND queue_id = l.id::integer AND session_id <> $4 AND priority >= 0
      AND reported_at > now() - interval '1 s'
    ORDER BY priority DESC, run_at LIMIT 1) a ON true
LEFT JOIN LATERAL (
    SELECT tokens, refilled_at FROM namespace_rate
    WHERE l.max_runs_per_minute IS NOT NULL AND namespace_id = l.namespace_id LIMIT 1) n ON true
