-- +goose Up

-- Two roles nobody logs in as. The server's login is a member of both: it works as itself, with the rights of
-- belfry_engine, on the runs of all namespaces, and takes the role belfry_api, which sees one namespace, for
-- each transaction that it makes for a user. Roles belong to the whole server, so another database may have made them.
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['belfry_api', 'belfry_engine'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another migration was faster
            END;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- The namespace that a server begins with.
INSERT INTO namespace (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'default');

-- A queue belongs to one namespace and is never removed, so the queue of a run tells whose it is: four bytes where
-- the id of the namespace would take sixteen in each row of the hottest tables.
ALTER TABLE run_history ADD COLUMN queue_id integer;
ALTER TABLE dead_letter ADD COLUMN queue_id integer;
ALTER TABLE job_version ADD COLUMN namespace_id uuid;
UPDATE run_history h SET queue_id = j.queue_id FROM job j WHERE j.partition = h.partition AND j.id = h.job_id;
UPDATE dead_letter d SET queue_id = j.queue_id FROM job j WHERE j.partition = d.partition AND j.id = d.job_id;
UPDATE job_version v SET namespace_id = j.namespace_id FROM job j WHERE j.partition = v.partition AND j.id = v.job_id;

-- What lists ask for. Success is the common end and is found by its job or by its time; what is not a success is rare.
CREATE INDEX run_history_ended ON run_history USING brin (ended_at) WITH (pages_per_range = 32);
CREATE INDEX run_history_unsuccessful ON run_history (queue_id, ended, ended_at) WHERE ended <> 1;
CREATE INDEX dead_letter_failed ON dead_letter (queue_id, failed_at);
CREATE INDEX job_created ON job (namespace_id, id);
-- The name first: of several indexes that begin with the namespace PostgreSQL may take the wrong one for a name.
ALTER TABLE job DROP CONSTRAINT job_name_key, ADD CONSTRAINT job_name_key UNIQUE (name, namespace_id);

-- Keys are random, so a plain hash is enough, and nothing that could be used is stored.
CREATE TABLE api_key (
    id           uuid        PRIMARY KEY,
    namespace_id uuid        NOT NULL,
    name         text        NOT NULL,
    role         text        NOT NULL CHECK (role IN ('admin', 'editor', 'operator', 'viewer')),
    prefix       text        NOT NULL, -- what is shown of it
    hash         bytea       NOT NULL CONSTRAINT api_key_hash_key UNIQUE, -- SHA-256
    created_by   text        NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_key_namespace ON api_key (namespace_id, id);

-- One row for each change that somebody asked for, chained: the hash of a row covers that of the row before it in its
-- namespace, so a row that is changed or taken out later shows.
CREATE TABLE audit_log (
    namespace_id uuid        NOT NULL,
    seq          bigint      NOT NULL,
    at           timestamptz NOT NULL,
    actor        text        NOT NULL,
    action       text        NOT NULL,
    object       text        NOT NULL,
    detail       text        NOT NULL, -- JSON
    hash         bytea       NOT NULL,
    PRIMARY KEY (namespace_id, seq)
);

-- The days of history are made and dropped by their owner, for a server that is not.
-- +goose StatementBegin
CREATE FUNCTION belfry_make_history(ahead integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    day timestamp;
BEGIN
    -- Two CREATE TABLE IF NOT EXISTS at once may still collide.
    PERFORM pg_advisory_xact_lock(hashtext('belfry history'));
    FOR day IN SELECT generate_series(date_trunc('day', now() AT TIME ZONE 'UTC') - interval '1 day', date_trunc('day', now() AT TIME ZONE 'UTC') + ahead * interval '1 day', interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF run_history FOR VALUES FROM (%L) TO (%L)',
            'run_history_' || to_char(day, 'YYYYMMDD'), day || '+00', (day + interval '1 day') || '+00');
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION belfry_drop_history(keep interval) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'run_history'::regclass
          AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (now() AT TIME ZONE 'UTC') - keep
        ORDER BY 1
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', name);
        RETURN NEXT name;
    END LOOP;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION belfry_make_history, belfry_drop_history FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_make_history, belfry_drop_history TO belfry_engine;

-- Rights.
GRANT SELECT, INSERT, UPDATE, DELETE ON namespace, queue, cursor, cursor_skip, job, job_version, run, run_history, dead_letter, session, partition, api_key, audit_log TO belfry_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON queue, cursor, job, job_version, run, dead_letter, api_key TO belfry_api;
GRANT SELECT, INSERT ON run_history, audit_log TO belfry_api;
GRANT SELECT ON namespace, cursor_skip, session, partition TO belfry_api;
GRANT USAGE ON SEQUENCE cursor_id, queue_id_seq TO belfry_engine, belfry_api;
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('belfry_migration') IS NOT NULL THEN
        GRANT SELECT ON belfry_migration TO belfry_engine; -- a server asks whether the schema is its own
    END IF;
END $$;
-- +goose StatementEnd

-- What a namespace sees. Not set means nothing, and not everything.
-- +goose StatementBegin
CREATE FUNCTION belfry_namespace() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT nullif(current_setting('belfry.namespace', true), '')::uuid
$$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
    tables CONSTANT text[] := ARRAY['namespace', 'queue', 'cursor', 'cursor_skip', 'job', 'job_version', 'run', 'run_history', 'dead_letter', 'session', 'partition', 'api_key', 'audit_log'];
    name text;
    rule text;
BEGIN
    FOREACH name IN ARRAY tables LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY engine ON %I TO belfry_engine USING (true) WITH CHECK (true)', name);
        rule := CASE
            WHEN name = 'namespace' THEN 'id = belfry_namespace()'
            WHEN name IN ('session', 'partition') THEN 'true' -- no row of these is anybody's
            WHEN name IN ('run', 'run_history', 'dead_letter') THEN 'queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace())'
            WHEN name = 'cursor_skip' THEN 'EXISTS (SELECT FROM cursor c WHERE c.partition = cursor_skip.partition AND c.id = cursor_skip.cursor_id AND c.namespace_id = belfry_namespace())'
            ELSE 'namespace_id = belfry_namespace()'
        END;
        EXECUTE format('CREATE POLICY api ON %I TO belfry_api USING (%s)', name, rule);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['namespace', 'queue', 'cursor', 'cursor_skip', 'job', 'job_version', 'run', 'run_history', 'dead_letter', 'session', 'partition'] LOOP
        EXECUTE format('DROP POLICY engine ON %I', name);
        EXECUTE format('DROP POLICY api ON %I', name);
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;
-- +goose StatementEnd
DROP TABLE audit_log, api_key;
DROP FUNCTION belfry_namespace, belfry_make_history, belfry_drop_history;
DROP INDEX run_history_ended, run_history_unsuccessful, dead_letter_failed, job_created;
ALTER TABLE job DROP CONSTRAINT job_name_key, ADD CONSTRAINT job_name_key UNIQUE (namespace_id, name);
ALTER TABLE job_version DROP COLUMN namespace_id;
ALTER TABLE dead_letter DROP COLUMN queue_id;
ALTER TABLE run_history DROP COLUMN queue_id;
DELETE FROM namespace WHERE id = '00000000-0000-7000-8000-000000000001';
REVOKE ALL ON namespace, queue, cursor, cursor_skip, job, job_version, run, run_history, dead_letter, session, partition FROM belfry_api, belfry_engine;
REVOKE ALL ON SEQUENCE cursor_id, queue_id_seq FROM belfry_api, belfry_engine;
