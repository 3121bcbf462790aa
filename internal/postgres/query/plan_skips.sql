-- Plan: records ranges of due times that no job of a cursor runs for, and returns whose they are. $1 partitions,
-- $2 cursors, $3 first due time, $4 last due time, $5 number of occurrences, $6 reason, $7 the instant of the plan.
INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at, namespace_id, problem)
SELECT k.*, $7, c.namespace_id, c.problem
FROM unnest($1::smallint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::text[])
         AS k (partition, cursor_id, from_due, to_due, count, reason), LATERAL (
    SELECT namespace_id, problem FROM cursor WHERE partition = k.partition AND id = k.cursor_id LIMIT 1) c
ON CONFLICT DO NOTHING
RETURNING namespace_id, reason, count
