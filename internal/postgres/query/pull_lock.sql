-- Pull: locks those of the runs $1 to $4 that workers may still have: due, with handler $5, of queue $6, and with
-- nothing to decide. It returns their address, what they need permits for, and the size of their payload without
-- reading it. A run that is later than job.MissedGrace may have been missed: it waits until the partition has an owner
-- that has decided it. What a restore of the database holds was left out by pull_due, in the same transaction. See
-- claim.sql for the form. The index run_feed cannot answer IS NOT DISTINCT FROM, and must not: it would read the whole
-- feed for each key.
WITH w AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::text[]) AS handler,
           generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT w.n, x.address, x.queue_id, x.key, x.most,
       coalesce(x.size, (SELECT octet_length(payload) FROM job WHERE partition = w.partition AND id = w.job_id), 0)
FROM w, LATERAL (
    SELECT r.ctid::text AS address, r.queue_id, coalesce(r.concurrency_key, 0) AS key,
           coalesce(r.concurrency_max, 1) AS most, octet_length(r.payload) AS size
    FROM run r
    WHERE r.partition = w.partition AND r.job_id = w.job_id AND r.due_at = w.due_at AND r.seq = w.seq
      AND r.state = 0 /* pending */ AND r.run_at <= now() AND r.handler IS NOT DISTINCT FROM w.handler
      AND r.queue_id IS NOT DISTINCT FROM $6
      AND (r.due_at >= now() - interval '10 s' OR r.origin <> 0 /* schedule */ OR r.attempt > 0 OR EXISTS (
          SELECT FROM partition p JOIN session s ON s.id = p.owner AND s.expires_at > now()
          WHERE p.id = w.partition AND (missed_from IS NULL OR r.due_at < missed_from OR r.due_at >= missed_until)))
      AND (r.admit & 3 = 0 /* freely */ OR r.admit & 1 = 1 /* if alone */ AND NOT EXISTS (
          SELECT FROM run o WHERE o.partition = w.partition AND o.job_id = w.job_id AND o.state <> 0 /* live */)
        AND (r.admit & 2 = 0 OR NOT EXISTS ( /* if first */
          SELECT FROM run o
          WHERE o.partition = w.partition AND o.job_id = w.job_id AND o.state = 0 /* pending */
            AND (o.due_at, o.seq) < (r.due_at, r.seq) AND o.run_at <= now()
            AND o.due_at >= (SELECT held_until FROM cluster WHERE only_row))))
      AND (r.admit & 4 = 0 OR r.attempts IS NOT NULL OR r.origin IN (2, 4) /* backfill, redrive */ OR
           greatest(now(), r.run_at) <= coalesce(r.due_at + (
               SELECT deadline FROM job WHERE partition = w.partition AND id = w.job_id), 'infinity'))
    LIMIT 1 FOR UPDATE OF r SKIP LOCKED) x
