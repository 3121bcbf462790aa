-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Undo of operations: which versions of jobs an operation wrote

CREATE TABLE operation_version (
    operation_id uuid    NOT NULL,
    job_id       uuid    NOT NULL,
    version      integer NOT NULL,
    namespace_id uuid    NOT NULL,
    PRIMARY KEY (operation_id, job_id)
);
COMMENT ON TABLE operation_version IS
    'Versions of jobs that an operation wrote. An undo of the operation restores the versions before them.';
COMMENT ON INDEX operation_version_pkey IS 'Undo: the jobs of an operation, in the order of their ids.';

GRANT SELECT, INSERT ON operation_version TO belfry_engine, belfry_api;
ALTER TABLE operation_version ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON operation_version TO belfry_engine USING (true);
CREATE POLICY api ON operation_version TO belfry_api USING (namespace_id = belfry_namespace());

ALTER TABLE operation
    DROP CONSTRAINT operation_kind_check,
    ADD CONSTRAINT operation_kind_check CHECK (kind IN (
        'redrive', 'discard', 'pause', 'resume', 'trigger', 'delete', 'relabel', 'spread', 'undo', 'cancel', 'retry'));
COMMENT ON COLUMN operation.kind IS
    'Of dead letters: redrive, discard. Of jobs: pause, resume, trigger, delete, relabel, spread, undo. Of runs: cancel, '
    'retry.';

-- +goose Down

DROP TABLE operation_version;
DELETE FROM operation WHERE kind = 'undo';
ALTER TABLE operation
    DROP CONSTRAINT operation_kind_check,
    ADD CONSTRAINT operation_kind_check CHECK (kind IN (
        'redrive', 'discard', 'pause', 'resume', 'trigger', 'delete', 'relabel', 'spread', 'cancel', 'retry'));
