-- Redrive: locks the jobs of the dead letters $1 to $4, in one order, so that no run is redriven into a job that is
-- being deleted.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq
)
SELECT count(*) FROM (
    SELECT j.id FROM job j, (SELECT DISTINCT partition, job_id FROM k) w
    WHERE j.partition = w.partition AND j.id = w.job_id
    ORDER BY j.partition, j.id FOR UPDATE OF j) l
