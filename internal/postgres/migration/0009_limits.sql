-- +goose Up

-- What a queue may start: NULL means no limit.
ALTER TABLE queue
    ADD COLUMN max_running  integer, -- live runs at once, on all nodes together
    ADD COLUMN rate         integer, -- starts in rate_seconds
    ADD COLUMN rate_seconds integer,
    ADD COLUMN burst        integer, -- starts at once after a pause; with a rate only
    ADD COLUMN limited      boolean NOT NULL GENERATED ALWAYS AS (max_running IS NOT NULL OR rate IS NOT NULL) STORED;
-- A claim asks for the limited ones, which are few.
CREATE INDEX queue_limited ON queue (id) WHERE limited;

-- The token bucket of a queue with a rate. Apart from queue, of which every statement of the API reads rows: under a held
-- snapshot the versions of a row that is written many times a second pile up.
CREATE TABLE queue_rate (
    queue_id integer          PRIMARY KEY,
    tokens   double precision NOT NULL,
    at       timestamptz      NOT NULL -- when it had so many
) WITH (fillfactor = 10);

-- A live run that takes a place of a limit: inserted with the claim, deleted with what ends the attempt. n is given out under
-- the limit's lock, so that it grows: who counts may begin with the oldest that lives.
CREATE SEQUENCE hold_n INCREMENT 1000; -- as many as a transaction may need
CREATE TABLE hold (
    kind      smallint    NOT NULL, -- 1: a queue, 2: a concurrency key
    id        bigint      NOT NULL, -- of the queue; of the key, its hash
    n         bigint      NOT NULL, -- also in the run, see queue_hold and key_hold
    queue_id  integer     NOT NULL, -- of the run, which tells whose it is
    partition smallint    NOT NULL, -- and its key
    job_id    uuid        NOT NULL,
    due_at    timestamptz NOT NULL,
    seq       smallint    NOT NULL,
    PRIMARY KEY (kind, id, n)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);

-- What waits for a queue on a node: written while something does, and old after a second.
CREATE TABLE lane (
    queue_id   integer     NOT NULL,
    session_id uuid        NOT NULL,
    waiting    integer     NOT NULL,
    priority   smallint    NOT NULL, -- the highest that could start if there were a place; -1: none
    run_at     timestamptz NOT NULL, -- the earliest of those
    seen_at    timestamptz NOT NULL,
    PRIMARY KEY (queue_id, session_id)
) WITH (fillfactor = 50);

-- The hash of namespace and key, so that there is no table of keys to keep. A run has both from its job.
ALTER TABLE job
    ADD COLUMN concurrency_key bigint,
    ADD COLUMN concurrency_max integer;
ALTER TABLE run
    ADD COLUMN concurrency_key bigint,
    ADD COLUMN concurrency_max integer,
    ADD COLUMN queue_hold      bigint, -- n of its hold of the queue's limit; NULL: it has none, as runs of queues without a limit
    ADD COLUMN key_hold        bigint;
-- What plan reads, without a look at the wide row.
DROP INDEX job_cursor;
CREATE INDEX job_cursor ON job (partition, cursor_id, id)
    INCLUDE (queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at, concurrency_key, concurrency_max) WHERE state = 1;

GRANT SELECT, INSERT, UPDATE, DELETE ON hold, lane, queue_rate TO belfry_engine;
GRANT SELECT, INSERT, DELETE ON hold TO belfry_api;
GRANT SELECT ON lane, queue_rate TO belfry_api;
GRANT USAGE ON SEQUENCE hold_n TO belfry_engine, belfry_api;
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['hold', 'lane', 'queue_rate'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY engine ON %I TO belfry_engine USING (true) WITH CHECK (true)', name);
        EXECUTE format('CREATE POLICY api ON %I TO belfry_api USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()))', name);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

DROP INDEX job_cursor;
CREATE INDEX job_cursor ON job (partition, cursor_id, id)
    INCLUDE (queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at) WHERE state = 1;
ALTER TABLE run DROP COLUMN key_hold, DROP COLUMN queue_hold, DROP COLUMN concurrency_max, DROP COLUMN concurrency_key;
ALTER TABLE job DROP COLUMN concurrency_max, DROP COLUMN concurrency_key;
DROP TABLE lane, hold, queue_rate;
DROP SEQUENCE hold_n;
DROP INDEX queue_limited;
ALTER TABLE queue DROP COLUMN limited, DROP COLUMN burst, DROP COLUMN rate_seconds, DROP COLUMN rate, DROP COLUMN max_running;
