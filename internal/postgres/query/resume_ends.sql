-- Resume: lists the pauses in partitions ($1) that end within $3, at most $4, the namespaces in turns. Both ends are
-- bounded ($2 is where the search of each partition begins), so that a held snapshot cannot make it slower and slower.
-- It reads 1,000 of a partition at most. Index: job_pause_end_pkey.
SELECT partition, resume_at, job_id, namespace_id
FROM (
    SELECT e.*, row_number() OVER (PARTITION BY e.namespace_id ORDER BY e.resume_at) AS turn
    FROM unnest($1::smallint[], $2::timestamptz[]) p (id, first), LATERAL (
        SELECT partition, resume_at, job_id, namespace_id FROM job_pause_end
        WHERE partition = p.id AND resume_at BETWEEN p.first AND now() + $3::interval
        ORDER BY resume_at LIMIT 1000) e) x
ORDER BY turn, resume_at LIMIT $4
