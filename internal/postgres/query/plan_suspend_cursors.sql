-- Plan: sets cursors aside whose namespace has as many live runs as its quota allows. $1 partitions, $2 ids, $3 when
-- plan visits them again, $4 the instant of the plan. By address, as in plan_move_cursors.sql.
UPDATE cursor SET retry_at = $3, full_from = coalesce(full_from, $4), full_until = $4
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1) x))
