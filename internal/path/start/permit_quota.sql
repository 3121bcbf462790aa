-- Permits: writes the token buckets of namespaces with a quota of runs. $1 namespaces, $2 tokens, $3 when they were
-- refilled.
INSERT INTO namespace_rate (namespace_id, tokens, refilled_at)
SELECT unnest($1::uuid[]), unnest($2::double precision[]), unnest($3::timestamptz[])
ON CONFLICT (namespace_id) DO UPDATE SET tokens = excluded.tokens, refilled_at = excluded.refilled_at
