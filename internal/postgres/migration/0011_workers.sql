-- +goose Up

-- What a worker knows a job by; NULL: its runs are delivered by nodes. It is in each run too, and never changes while a
-- run is claimed and completed, so that the index below leaves claims HOT. Runs of other targets are not in it.
ALTER TABLE job ADD COLUMN handler text COLLATE "C";
ALTER TABLE run
    ADD COLUMN handler  text COLLATE "C",
    ADD COLUMN percent  smallint, -- how far a worker says that it has come
    ADD COLUMN progress text;
CREATE INDEX run_lane ON run (queue_id, handler, priority, run_at) WHERE handler IS NOT NULL;

-- What a worker reported with success; bounded.
ALTER TABLE run_history ADD COLUMN result text;

-- With the handler: plan reads it without a look at the wide row.
DROP INDEX job_cursor;
CREATE INDEX job_cursor ON job (partition, cursor_id, id)
    INCLUDE (queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at, concurrency_key, concurrency_max, handler) WHERE state = 1;

-- A worker's session is of one queue. Those of nodes have none, and are nobody's.
ALTER TABLE session
    ADD COLUMN namespace_id uuid,
    ADD COLUMN queue_id     integer;
ALTER POLICY api ON session USING (namespace_id IS NULL OR namespace_id = belfry_namespace()) WITH CHECK (namespace_id = belfry_namespace());
GRANT INSERT ON session TO belfry_api;

-- Keys of workers are good for these queues, and for nothing else.
ALTER TABLE api_key
    ADD COLUMN queues text[],
    DROP CONSTRAINT api_key_role_check,
    ADD CONSTRAINT api_key_role_check CHECK (role IN ('admin', 'editor', 'operator', 'viewer', 'worker')),
    ADD CONSTRAINT api_key_queues CHECK ((role = 'worker') = (queues IS NOT NULL));

-- +goose Down

DELETE FROM api_key WHERE role = 'worker';
ALTER TABLE api_key
    DROP CONSTRAINT api_key_queues,
    DROP CONSTRAINT api_key_role_check,
    ADD CONSTRAINT api_key_role_check CHECK (role IN ('admin', 'editor', 'operator', 'viewer')),
    DROP COLUMN queues;
REVOKE INSERT ON session FROM belfry_api;
DROP POLICY api ON session;
CREATE POLICY api ON session TO belfry_api USING (true);
ALTER TABLE session DROP COLUMN queue_id, DROP COLUMN namespace_id;
DROP INDEX job_cursor;
CREATE INDEX job_cursor ON job (partition, cursor_id, id)
    INCLUDE (queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at, concurrency_key, concurrency_max) WHERE state = 1;
ALTER TABLE run_history DROP COLUMN result;
DROP INDEX run_lane;
ALTER TABLE run DROP COLUMN progress, DROP COLUMN percent, DROP COLUMN handler;
ALTER TABLE job DROP COLUMN handler;
