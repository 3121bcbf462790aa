-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Counts the bytes of the jobs that were there before 0048, as 0040 counts jobs. It locks nothing.
INSERT INTO namespace_usage (namespace_id, jobs, storage)
SELECT namespace_id, 0, sum(storage)
FROM (SELECT namespace_id, sum(belfry_stored(payload, target_config)) AS storage FROM job GROUP BY namespace_id
      UNION ALL
      SELECT namespace_id, -storage FROM namespace_usage) x
GROUP BY namespace_id HAVING sum(storage) <> 0;

-- +goose Down

SELECT; -- the column goes with 0048
