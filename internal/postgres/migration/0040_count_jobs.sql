-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Counts the jobs that were there before the triggers of 0039. It locks nothing: one statement sees the jobs and what
-- the triggers have counted at the same instant. In its own migration, because 0039 keeps jobs from being written until
-- it commits.
INSERT INTO namespace_usage (namespace_id, jobs)
SELECT namespace_id, sum(jobs)
FROM (SELECT namespace_id, count(*) AS jobs FROM job GROUP BY namespace_id
      UNION ALL
      SELECT namespace_id, -jobs FROM namespace_usage) x
GROUP BY namespace_id HAVING sum(jobs) <> 0;

-- +goose Down

SELECT; -- the rows go with their table
