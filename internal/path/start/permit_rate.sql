-- Permits: writes the token buckets of queues with a rate. $1 queues, $2 tokens, $3 when they were refilled.
INSERT INTO queue_rate (queue_id, tokens, refilled_at)
SELECT unnest($1::integer[]), unnest($2::double precision[]), unnest($3::timestamptz[])
ON CONFLICT (queue_id) DO UPDATE SET tokens = excluded.tokens, refilled_at = excluded.refilled_at
