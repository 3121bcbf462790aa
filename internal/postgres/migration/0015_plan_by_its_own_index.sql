-- +goose Up

-- This index is for lists. Where most jobs are finished PostgreSQL believes that it holds next to nothing, and would look the
-- jobs of a cursor up in it, by reading all of it for each cursor. So its condition is one that lists alone can meet.
-- The old one goes last: from then on nobody reads the table until this is committed.
CREATE INDEX job_plan_from_new ON job (namespace_id, plan_from, partition, id) WHERE state + 0 = 1;
DROP INDEX job_plan_from;
ALTER INDEX job_plan_from_new RENAME TO job_plan_from;

-- +goose Down

CREATE INDEX job_plan_from_old ON job (namespace_id, plan_from, partition, id) WHERE state = 1;
DROP INDEX job_plan_from;
ALTER INDEX job_plan_from_old RENAME TO job_plan_from;
