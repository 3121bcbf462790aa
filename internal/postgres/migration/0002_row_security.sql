-- +goose Up

-- Roles
--
-- No one logs in as these two roles. The server's login is a member of both. It normally works with the rights of
-- belfry_engine, on the runs of all namespaces. For each transaction on behalf of a user it takes the role belfry_api,
-- which sees one namespace. Roles belong to the whole database server, so another database may have created them.
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
        -- Row-level security binds the owner of the tables too, unless it is a superuser. Without these roles, its
        -- statements, and those of later migrations, would silently change no rows.
        IF NOT pg_has_role(current_user, name, 'USAGE') THEN
            EXECUTE format('GRANT %I TO %I', name, current_user);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd


-- Functions

-- +goose StatementBegin
CREATE FUNCTION belfry_namespace() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT nullif(current_setting('belfry.namespace', true), '')::uuid
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_namespace IS
    'The namespace of the current transaction, which policies compare with. NULL, and so no rows, if it is not set.';

-- Days of history are created and dropped with the rights of the owner, on behalf of servers, which do not have them.
-- +goose StatementBegin
CREATE FUNCTION belfry_create_history(ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    today CONSTANT timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
    day timestamp;
BEGIN
    -- Two CREATE TABLE IF NOT EXISTS at the same time may still collide.
    PERFORM pg_advisory_xact_lock(hashtext('belfry history'));
    FOR day IN SELECT generate_series(today - interval '1 day', today + ahead * interval '1 day', interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF run_history FOR VALUES FROM (%L) TO (%L)',
            'run_history_' || to_char(day, 'YYYYMMDD'), day || '+00', (day + interval '1 day') || '+00');
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_create_history IS
    'Creates the partitions of run_history from yesterday to `ahead` days from now.';

-- +goose StatementBegin
CREATE FUNCTION belfry_drop_history(keep interval) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
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
COMMENT ON FUNCTION belfry_drop_history IS 'Drops the partitions of run_history that ended longer than `keep` ago.';

-- +goose StatementBegin
CREATE FUNCTION belfry_create_output(ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    today CONSTANT timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
    day timestamp;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('belfry output'));
    FOR day IN SELECT generate_series(today - interval '1 day', today + ahead * interval '1 day', interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF run_output FOR VALUES FROM (%L) TO (%L)',
            'run_output_' || to_char(day, 'YYYYMMDD'), day || '+00', (day + interval '1 day') || '+00');
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_create_output IS 'Creates the partitions of run_output, as belfry_create_history does.';

-- +goose StatementBegin
CREATE FUNCTION belfry_drop_output(keep interval) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'run_output'::regclass
          AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (now() AT TIME ZONE 'UTC') - keep
        ORDER BY 1
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', name);
        RETURN NEXT name;
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_drop_output IS 'Drops the partitions of run_output, as belfry_drop_history does.';

REVOKE ALL ON FUNCTION belfry_create_history, belfry_drop_history, belfry_create_output, belfry_drop_output FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_create_history, belfry_drop_history, belfry_create_output, belfry_drop_output
    TO belfry_engine;


-- Rights of belfry_engine. It only reads namespaces and keys: the owner creates namespaces, and belfry_api changes keys
-- inside one namespace. No role changes the audit log.

GRANT SELECT, INSERT, UPDATE, DELETE ON cursor, cursor_skip, job, job_label, job_version, run, run_history,
    run_output_live, dead_letter, queue, queue_rate, permit, queue_waiter, session, partition, idempotent_response,
    operation TO belfry_engine;
GRANT SELECT, INSERT ON run_output, audit_log TO belfry_engine;
GRANT SELECT ON namespace, api_key, cluster_key, secret TO belfry_engine;
GRANT UPDATE (value, previous) ON secret TO belfry_engine; -- to encrypt them with a new key
GRANT USAGE ON SEQUENCE cursor_id_seq, queue_id_seq, permit_number TO belfry_engine;
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('belfry_migration') IS NOT NULL THEN
        GRANT SELECT ON belfry_migration TO belfry_engine; -- a server checks that it knows this version of the schema
    END IF;
END $$;
-- +goose StatementEnd

-- Rights of belfry_api.

GRANT SELECT, INSERT, UPDATE, DELETE ON cursor, job, job_label, job_version, run, dead_letter, queue,
    idempotent_response, operation, secret TO belfry_api;
GRANT SELECT, INSERT, UPDATE ON api_key TO belfry_api;
GRANT SELECT, INSERT, DELETE ON permit TO belfry_api;
GRANT SELECT, INSERT ON run_history, session, audit_log TO belfry_api;
GRANT SELECT ON namespace, cursor_skip, run_output, run_output_live, queue_rate, queue_waiter, partition TO belfry_api;
GRANT USAGE ON SEQUENCE cursor_id_seq, queue_id_seq, permit_number TO belfry_api;


-- Row-level security
--
-- belfry_engine sees all rows, belfry_api those of its namespace. A table without a policy for a role shows it no rows.

-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['namespace', 'api_key', 'cursor', 'cursor_skip', 'job', 'job_label', 'job_version',
        'run', 'run_history', 'run_output', 'run_output_live', 'dead_letter', 'queue', 'queue_rate', 'permit',
        'queue_waiter', 'session', 'partition', 'idempotent_response', 'operation', 'secret', 'cluster_key',
        'audit_log']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY engine ON %I TO belfry_engine USING (true)', name);
    END LOOP;
END $$;
-- +goose StatementEnd

CREATE POLICY api ON namespace TO belfry_api USING (id = belfry_namespace());
CREATE POLICY api ON api_key TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON cursor TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON cursor_skip TO belfry_api USING (EXISTS (
    SELECT FROM cursor c
    WHERE c.partition = cursor_skip.partition AND c.id = cursor_skip.cursor_id
      AND c.namespace_id = belfry_namespace()));
-- No index can answer IS NOT DISTINCT FROM, and none should be used for this condition: PostgreSQL believes that a
-- namespace newer than the statistics has no jobs, and would read all of them instead of the one by its key. Lists name
-- the namespace themselves. namespace_id is never NULL, so a transaction without a namespace sees nothing.
CREATE POLICY api ON job TO belfry_api USING (namespace_id IS NOT DISTINCT FROM belfry_namespace());
CREATE POLICY api ON job_label TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON job_version TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON run TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON run_history TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON run_output TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON run_output_live TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON dead_letter TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON queue TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON queue_rate TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON permit TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON queue_waiter TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
-- Sessions of nodes belong to no namespace. Users may read them, but create only sessions of workers.
CREATE POLICY api ON session TO belfry_api USING (namespace_id IS NULL OR namespace_id = belfry_namespace())
    WITH CHECK (namespace_id = belfry_namespace());
CREATE POLICY api ON partition TO belfry_api USING (true); -- belongs to no namespace, and holds nothing of users
CREATE POLICY api ON idempotent_response TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON operation TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON secret TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON audit_log TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

-- The roles stay: other databases may use them.
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['namespace', 'api_key', 'cursor', 'cursor_skip', 'job', 'job_label', 'job_version',
        'run', 'run_history', 'run_output', 'run_output_live', 'dead_letter', 'queue', 'queue_rate', 'permit',
        'queue_waiter', 'session', 'partition', 'idempotent_response', 'operation', 'secret', 'cluster_key',
        'audit_log']
    LOOP
        EXECUTE format('DROP POLICY IF EXISTS api ON %I', name); -- cluster_key has none
        EXECUTE format('DROP POLICY engine ON %I', name);
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY', name);
        EXECUTE format('REVOKE ALL ON %I FROM belfry_api, belfry_engine', name);
    END LOOP;
END $$;
-- +goose StatementEnd
REVOKE ALL ON SEQUENCE cursor_id_seq, queue_id_seq, permit_number FROM belfry_api, belfry_engine;
DROP FUNCTION belfry_namespace, belfry_create_history, belfry_drop_history, belfry_create_output, belfry_drop_output;
