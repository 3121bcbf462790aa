-- Pull: finds the first runs of feeds, from the low-water mark of each feed on, that are due or soon will be.
-- $1 queues, $2 handlers, $3 priorities, $4 low-water marks, $5 maximum number per feed, $6 how soon counts.
-- One range of the index run_feed per feed.
WITH f AS MATERIALIZED (
    SELECT unnest($1::integer[]) AS queue_id, unnest($2::text[]) AS handler, unnest($3::smallint[]) AS priority,
           unnest($4::timestamptz[]) AS mark, generate_subscripts($1::integer[], 1) - 1 AS n
)
SELECT f.n, x.* FROM f, LATERAL (
    SELECT r.partition, r.job_id, r.due_at, r.seq, r.run_at, r.admit,
           coalesce(r.concurrency_key, 0), coalesce(r.concurrency_max, 1)
    FROM run r
    WHERE r.handler IS NOT NULL AND r.queue_id = f.queue_id AND r.handler = f.handler AND r.priority = f.priority
      AND r.run_at >= f.mark AND r.run_at <= now() + $6::interval AND r.state = 0 /* pending */
      AND r.due_at >= (SELECT held_until FROM cluster WHERE only_row)
    ORDER BY r.run_at LIMIT $5) x
