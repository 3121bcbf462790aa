-- +goose Up

-- Lists by due time walk these two in the order (time, partition, cursor, job), so that a page reads no more than it shows,
-- however many namespaces and cursors there are. A cursor that cannot be planned is due at no time.
CREATE INDEX cursor_list ON cursor (namespace_id, plan_at, partition, id) WHERE broken_at IS NULL;
DROP INDEX job_plan_from;
CREATE INDEX job_plan_from ON job (namespace_id, plan_from, partition, id) WHERE state = 1;

-- An operation that cannot be worked on steps aside, ever longer, and ends as failed.
ALTER TABLE operation
    ADD COLUMN failures smallint NOT NULL DEFAULT 0, -- in a row
    ADD COLUMN problem  text,                        -- of the last one
    DROP CONSTRAINT operation_state_check,
    ADD CONSTRAINT operation_state_check CHECK (state IN ('running', 'finished', 'aborted', 'failed'));

-- +goose Down

UPDATE operation SET state = 'aborted' WHERE state = 'failed';
ALTER TABLE operation
    DROP CONSTRAINT operation_state_check,
    ADD CONSTRAINT operation_state_check CHECK (state IN ('running', 'finished', 'aborted')),
    DROP COLUMN problem,
    DROP COLUMN failures;
DROP INDEX job_plan_from;
CREATE INDEX job_plan_from ON job (namespace_id, plan_from, id) WHERE state = 1;
DROP INDEX cursor_list;
