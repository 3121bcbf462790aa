-- Plan: locks the cursors that are due within the look-ahead, except those that another transaction has locked.
-- $1 partitions, $2 the end of the look-ahead, $3 maximum number of cursors, $4 where the search of
-- each partition begins.
-- Index: cursor_due.
SELECT c.partition, c.id, c.schedule, c.missed, c.next_due_at, c.broken_at, c.paced_to, c.after_job, c.after_origin,
       (SELECT missed_until FROM partition WHERE id = c.partition), c.namespace_id
FROM unnest($1::smallint[], $4::timestamptz[]) p (id, first), LATERAL (
    SELECT * FROM cursor
    WHERE partition = p.id AND plan_at BETWEEN p.first AND $2
    ORDER BY plan_at LIMIT $3
    FOR UPDATE SKIP LOCKED) c
LIMIT $3
