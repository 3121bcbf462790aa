-- Plan: locks the cursors that are late, and waits for the locks in the order that every transaction takes them in.
-- Changes of jobs may lock a cursor with many jobs one after the other; plan would never get it if it always skipped
-- locked cursors. $1 partitions, $2 what counts as late, $3 maximum number of cursors, $4 where the search
-- of each partition begins. Indexes: cursor_due, and cursor_pkey to lock: the condition is plan_at, by which PostgreSQL
-- might search otherwise.
SELECT c.partition, c.id, c.schedule, c.missed, c.next_due_at, c.broken_at, c.paced_to, c.after_job, c.after_origin,
       (SELECT missed_until FROM partition WHERE id = c.partition), c.namespace_id
FROM (
    SELECT partition, id FROM (
        SELECT x.* FROM unnest($1::smallint[], $4::timestamptz[]) p (id, first), LATERAL (
            SELECT partition, id, plan_at FROM cursor WHERE partition = p.id AND plan_at BETWEEN p.first AND $2
            ORDER BY plan_at LIMIT $3) x
        ORDER BY x.plan_at LIMIT $3) first
    ORDER BY partition, id) late, LATERAL (
    SELECT * FROM cursor WHERE partition = late.partition AND id = late.id AND coalesce(retry_at, next_due_at) <= $2
    LIMIT 1 FOR UPDATE) c
