-- Claim under limits: locks those of the runs $1 to $4 that session $5 may start and that need no decision, as
-- candidates for permits. Only runs that are due: between a claim ahead of time and the start, a permit and a token
-- would be held for nothing.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
)
SELECT x.* FROM k, LATERAL (
    SELECT r.ctid::text, r.partition, r.job_id, r.due_at, r.seq, r.priority, r.run_at, r.queue_id,
           coalesce(r.concurrency_key, 0), coalesce(r.concurrency_max, 1)
    FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.state = 0 /* pending */ AND r.run_at <= now() AND r.handler IS NULL
      AND (SELECT owner FROM partition
           WHERE id = k.partition AND (missed_from IS NULL OR r.due_at < missed_from OR r.due_at >= missed_until)) = $5
      AND r.due_at >= (SELECT held_until FROM cluster WHERE only_row)
      AND (r.admit & 3 = 0 /* freely */ OR r.admit & 1 = 1 /* if alone */ AND NOT EXISTS (
          SELECT FROM run o WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state <> 0 /* live */)
        AND (r.admit & 2 = 0 OR NOT EXISTS ( /* if first */
          SELECT FROM run o
          WHERE o.partition = k.partition AND o.job_id = k.job_id AND o.state = 0 /* pending */
            AND (o.due_at, o.seq) < (r.due_at, r.seq) AND o.run_at <= now()
            AND o.due_at >= (SELECT held_until FROM cluster WHERE only_row))))
      AND (r.admit & 4 = 0 OR r.attempts IS NOT NULL OR r.origin IN (2, 4) /* backfill, redrive */ OR
           greatest(now(), r.run_at) <= coalesce(r.due_at + (
               SELECT deadline FROM job WHERE partition = k.partition AND id = k.job_id), 'infinity'))
    LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x
WHERE EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now()) AND belfry_clock_trusted()
