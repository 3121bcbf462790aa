-- +goose Up

-- This index is for lists. Where most jobs are finished PostgreSQL believes that it holds next to nothing, and would look the
-- jobs of a cursor up in it, by reading all of it for each cursor. So its condition is one that lists alone can meet.
DROP INDEX job_plan_from;
CREATE INDEX job_plan_from ON job (namespace_id, plan_from, partition, id) WHERE state + 0 = 1;

-- +goose Down

DROP INDEX job_plan_from;
CREATE INDEX job_plan_from ON job (namespace_id, plan_from, partition, id) WHERE state = 1;
