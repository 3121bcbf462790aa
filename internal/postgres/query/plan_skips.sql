-- Plan: records ranges of due times that no job of a cursor runs for. $1 partitions, $2 cursors, $3 first due time,
-- $4 last due time, $5 number of occurrences, $6 reason, $7 the instant of the plan.
INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at)
SELECT unnest($1::smallint[]), unnest($2::bigint[]), unnest($3::timestamptz[]), unnest($4::timestamptz[]),
       unnest($5::bigint[]), unnest($6::text[]), $7
ON CONFLICT DO NOTHING
