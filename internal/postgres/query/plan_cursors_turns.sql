-- Plan: locks the first cursors of each namespace, except those that another transaction has locked: one namespace may
-- have more cursors than the other statements read. $1 partitions, $2 until when they are due, $3 maximum
-- number of cursors, $4 maximum number of one namespace, $5 namespaces to leave out, $6 where the search begins. What
-- it reads is bounded: of many namespaces it takes some at random, and a namespace may have cursors in partitions of
-- other nodes. Indexes: cursor_list, and cursor_pkey to lock: the condition is plan_at, by which PostgreSQL might
-- search otherwise.
SELECT c.partition, c.id, c.schedule, c.missed, c.next_due_at, c.broken_at, c.paced_to, c.after_job, c.after_origin,
       (SELECT missed_until FROM partition WHERE id = c.partition), c.namespace_id
FROM (SELECT id FROM namespace WHERE id <> ALL ($5::uuid[]) ORDER BY random() LIMIT 1000) n, LATERAL (
    SELECT x.partition, x.id FROM (
        SELECT partition, id FROM cursor WHERE namespace_id = n.id AND plan_at BETWEEN $6 AND $2 AND broken_at IS NULL
        ORDER BY plan_at LIMIT 1000) x
    WHERE x.partition = ANY ($1::smallint[]) LIMIT $4) due, LATERAL (
    SELECT * FROM cursor WHERE partition = due.partition AND id = due.id AND coalesce(retry_at, next_due_at) <= $2
    LIMIT 1 FOR UPDATE SKIP LOCKED) c
LIMIT $3
