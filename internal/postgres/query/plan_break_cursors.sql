-- Plan: sets cursors aside that cannot be planned, until retry_at. $1 partitions, $2 ids, $3 when to retry,
-- $4 problems, $5 the instant of the plan. By address, as in plan_move_cursors.sql.
UPDATE cursor
SET broken_at = coalesce(broken_at, $5), retry_at = ($3::timestamptz[])[array_position($2::bigint[], id)],
    problem = ($4::text[])[array_position($2::bigint[], id)]
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1) x))
