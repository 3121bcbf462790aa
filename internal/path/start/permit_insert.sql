-- Permits: writes the permits of runs that start. $1 kinds (1 queue, 2 concurrency key), $2 ids, $3 numbers, $4 the
-- queue of the run, $5 to $8 the run.
INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
SELECT unnest($1::smallint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::integer[]),
       unnest($5::smallint[]), unnest($6::uuid[]), unnest($7::timestamptz[]), unnest($8::smallint[])
