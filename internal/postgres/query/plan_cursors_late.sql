-- Plan: locks the cursors that are late, and waits for the locks in the order that every transaction takes them in.
-- Changes of jobs may lock a cursor with many jobs one after the other; plan would never get it if it always skipped
-- locked cursors. $1 partitions, $2 what counts as late, $3 maximum number of cursors. Index: cursor_due.
SELECT c.partition, c.id, c.schedule, c.missed, c.next_due_at, c.broken_at, c.paced_to, c.after_job, c.after_origin,
       (SELECT missed_until FROM partition WHERE id = c.partition)
FROM (
    SELECT x.* FROM unnest($1::smallint[]) p, LATERAL (
        SELECT partition, id FROM cursor WHERE partition = p AND plan_at <= $2 ORDER BY plan_at LIMIT $3) x
    ORDER BY x.partition, x.id LIMIT $3) late, LATERAL (
    SELECT * FROM cursor WHERE partition = late.partition AND id = late.id AND plan_at <= $2 LIMIT 1 FOR UPDATE) c
