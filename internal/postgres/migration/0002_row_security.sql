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

-- +goose StatementBegin
CREATE FUNCTION belfry_queues() RETURNS integer[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT nullif(current_setting('belfry.queues', true), '')::integer[]
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_queues IS
    'The queues of the workers that the current transaction works for, which policies compare with. NULL: for none.';


-- Functions with the rights of the owner, on behalf of servers, which do not have them

-- Nodes keep a job of their own, the canary, in a namespace of its own.
-- +goose StatementBegin
CREATE FUNCTION belfry_create_canary(canary uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO namespace (id, name) VALUES (canary, 'belfry-canary') ON CONFLICT DO NOTHING;
    RETURN EXISTS (SELECT FROM namespace WHERE id = canary AND name = 'belfry-canary');
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_create_canary IS
    'Creates the namespace belfry-canary with this id, unless it exists. Returns false if its name or its id is taken.';

-- Days of history are created and dropped while runs end and while backups read the history. A statement that waits for
-- an ACCESS EXCLUSIVE lock on run_history makes every completion queue behind it, so these functions wait briefly.

-- +goose StatementBegin
CREATE FUNCTION belfry_create_history(ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    today CONSTANT timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
    parent text;
    name text;
    day timestamp;
BEGIN
    FOR parent, name, day IN
        SELECT p, p || to_char(d, '_YYYYMMDD'), d
        FROM unnest(ARRAY['run_history', 'run_output']) p,
             generate_series(today - interval '1 day', today + ahead * interval '1 day', interval '1 day') d
        WHERE to_regclass(p || to_char(d, '_YYYYMMDD')) IS NULL
        ORDER BY d, p
    LOOP
        PERFORM pg_advisory_xact_lock(hashtext('belfry history')); -- one node at a time
        -- Another node may have been faster. Not to_regclass: it may answer from before the wait.
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = parent::regclass AND c.relname = name);
        PERFORM set_config('lock_timeout', '100ms', true);
        -- CREATE TABLE ... PARTITION OF would lock the parent against reading and writing. ATTACH conflicts with
        -- neither. It scans the new table, which is empty.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL EXCLUDING COMMENTS)', name, parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, name, day || '+00',
            (day + interval '1 day') || '+00');
    END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_create_history IS
    'Creates the partitions of run_history and run_output from yesterday to `ahead` days from now. It blocks neither '
    'readers nor writers, and readers do not block it.';

-- +goose StatementBegin
CREATE FUNCTION belfry_may_drop(name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
BEGIN -- volatile: it sees what was committed while the caller waited for a lock
    RETURN name NOT LIKE 'run_history_%'
        OR NOT (SELECT required FROM archive_setting)
        OR EXISTS (SELECT FROM archive_day WHERE name = to_char(day, '"run_history_"YYYYMMDD')
                   AND archived_at IS NOT NULL AND NOT changed);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_may_drop IS
    'Whether a day may be dropped: the archive has all its rows, or is not required. Output is not archived.';

-- +goose StatementBegin
CREATE FUNCTION belfry_drop_history(keep interval) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    overdue interval;
    name text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('belfry history')) THEN
        RETURN; -- another node is doing it
    END IF;
    SELECT c.relname INTO name
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('run_history'::regclass, 'run_output'::regclass)
      AND c.relname ~ '^run_(history|output)_[0-9]{8}$'
      AND right(c.relname, 8) < to_char(now() AT TIME ZONE 'UTC' - keep, 'YYYYMMDD') AND belfry_may_drop(c.relname)
    ORDER BY right(c.relname, 8), 1 LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    overdue := now() AT TIME ZONE 'UTC' - keep - (to_date(right(name, 8), 'YYYYMMDD') + 1);
    -- DROP waits until no transaction uses the parent, and all later ones queue behind it. Where commits are slow, the
    -- first limit may be too short for ever, so a day that is still there after a day gets a longer one.
    PERFORM set_config('lock_timeout', CASE WHEN overdue < interval '1 day' THEN '100ms' ELSE '500ms' END, true);
    -- The locks that DROP takes anyway, and in its order. Behind them no row can come to a day that the archive has: that
    -- of the day waits for statements that name its table.
    EXECUTE format('LOCK TABLE ONLY %I, ONLY %I IN ACCESS EXCLUSIVE MODE', left(name, -9), name);
    IF NOT belfry_may_drop(name) THEN
        RETURN;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %I', name);
    UPDATE archive_day SET dropped_at = now() WHERE name = to_char(day, '"run_history_"YYYYMMDD');
    RETURN NEXT name;
EXCEPTION WHEN lock_not_available THEN
    RAISE lock_not_available USING MESSAGE = format('%s is dropped later: other transactions use the history', name);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_drop_history IS
    'Drops the oldest partition of run_history or run_output that ended longer than `keep` ago, and returns its name. '
    'One call drops one day, so that completions never wait for two. It fails with lock_not_available if the day '
    'cannot be locked at once.';

-- +goose StatementBegin
CREATE FUNCTION belfry_close_history() RETURNS SETOF date
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    name text;
    next date;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('belfry history')) THEN
        RETURN; -- another node is doing it
    END IF;
    -- Names are compared and not read as dates: the planner may check this for tables that are no days.
    SELECT c.relname INTO name
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'run_history'::regclass AND c.relname ~ '^run_history_[0-9]{8}$'
      AND c.relname <= 'run_history_' || to_char((now() - interval '25 hours') AT TIME ZONE 'UTC', 'YYYYMMDD')
      AND NOT EXISTS (SELECT FROM archive_day WHERE c.relname = to_char(day, '"run_history_"YYYYMMDD'))
    ORDER BY 1 LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    next := to_date(right(name, 8), 'YYYYMMDD');
    PERFORM set_config('lock_timeout', '100ms', true);
    -- Both wait for the transactions that have written rows and have not committed. Later ones see the day's row.
    EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', name);
    LOCK TABLE cursor_skip IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO archive_day (day, closed_at) VALUES (next, now());
    EXECUTE format('CREATE TRIGGER late BEFORE INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW '
        'EXECUTE FUNCTION belfry_note_late_run()', name);
    RETURN NEXT next;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_close_history IS
    'Closes the oldest day of history that ended at least an hour ago: rows that come later are noted in archive_day. It '
    'fails with lock_not_available if a transaction that writes rows of that day takes longer than 100 ms.';

-- The two triggers also write a mark that is set. Their lock on the row keeps nodes from taking the day, and so from
-- removing the mark, until the transaction of the late row has ended.

-- +goose StatementBegin
CREATE FUNCTION belfry_note_late_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE archive_day SET changed = true WHERE day = (OLD.ended_at AT TIME ZONE 'UTC')::date;
        RETURN OLD;
    END IF;
    UPDATE archive_day SET changed = true WHERE day = (NEW.ended_at AT TIME ZONE 'UTC')::date;
    RETURN NEW;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_note_late_run IS
    'Trigger on each closed day of run_history: notes that the day has to be exported again. It refuses nothing, because '
    'the end of a run must not be lost.';

-- +goose StatementBegin
CREATE FUNCTION belfry_note_late_skip() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE archive_day SET changed = true
    WHERE day IN (SELECT (created_at AT TIME ZONE 'UTC')::date FROM new_skip);
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_note_late_skip IS
    'Trigger on cursor_skip: notes that a closed day has to be exported again.';
CREATE TRIGGER cursor_skip_late AFTER INSERT ON cursor_skip REFERENCING NEW TABLE AS new_skip
    FOR EACH STATEMENT EXECUTE FUNCTION belfry_note_late_skip();

-- Functions with the rights of the owner, and those that they call, name the schema where they find tables, and then
-- pg_temp. Without its name, temporary tables of the caller come first.
-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc
             WHERE proconfig::text LIKE '%search_path=%' AND pronamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION belfry_create_canary, belfry_create_history, belfry_may_drop, belfry_drop_history,
    belfry_close_history, belfry_note_late_run, belfry_note_late_skip, belfry_contract, belfry_check_node FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_create_canary, belfry_create_history, belfry_may_drop, belfry_drop_history,
    belfry_close_history TO belfry_engine;


-- Rights of belfry_engine. It only reads namespaces and keys: the owner creates namespaces, and belfry_api changes keys
-- inside one namespace. No role changes the audit log.

GRANT SELECT, INSERT, UPDATE, DELETE ON cursor, cursor_skip, job, job_label, job_version, job_pause_end, run,
    run_history, run_output_live, dead_letter, stat_minute, queue, queue_rate, namespace_rate, permit, queue_waiter,
    namespace_usage, namespace_runs, session, partition, failover, idempotent_response, operation
    TO belfry_engine;
GRANT SELECT, INSERT, DELETE ON audit_finding, operation_item, operation_version TO belfry_engine;
GRANT SELECT, INSERT ON run_output, audit_log TO belfry_engine;
GRANT SELECT, UPDATE ON cluster TO belfry_engine;
GRANT SELECT, UPDATE ON archive_day, archive_setting TO belfry_engine; -- only a function adds days, no role removes one
GRANT SELECT, DELETE ON login_session, cluster_key TO belfry_engine; -- those that have expired
GRANT SELECT ON namespace, api_key, secret, broker TO belfry_engine;
GRANT UPDATE (value, previous) ON secret TO belfry_engine; -- to encrypt them with a new key
GRANT UPDATE (sealed) ON cluster_key, broker TO belfry_engine;
GRANT USAGE ON SEQUENCE cursor_id_seq, queue_id_seq, permit_number TO belfry_engine;
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('belfry_migration') IS NOT NULL THEN
        GRANT SELECT ON belfry_migration TO belfry_engine; -- a server checks that it knows this version of the schema
    END IF;
END $$;
-- +goose StatementEnd

-- Rights of belfry_api. What a node does on behalf of a worker, or of a target that reports on a run, it does with them
-- too, in the namespace of the worker's key or of the target's token.

GRANT SELECT, INSERT, UPDATE, DELETE ON cursor, job, job_label, job_version, run, dead_letter, queue,
    idempotent_response, operation, secret TO belfry_api;
GRANT SELECT, INSERT, UPDATE ON api_key, namespace_usage, namespace_rate, queue_rate TO belfry_api;
GRANT SELECT, INSERT, DELETE ON login_session, job_pause_end, permit TO belfry_api;
GRANT UPDATE (used_at) ON login_session TO belfry_api;
GRANT SELECT, INSERT ON run_history, session, operation_item, operation_version, audit_log TO belfry_api;
GRANT UPDATE (renewed_at, expires_at, alive, handlers) ON session TO belfry_api;
GRANT SELECT ON namespace, cursor_skip, audit_finding, run_output, run_output_live, stat_minute, namespace_runs,
    queue_waiter, partition, cluster, failover, broker TO belfry_api;
GRANT SELECT (day, manifest) ON archive_day TO belfry_api; -- so that why can say where a run is
GRANT UPDATE (secret_version) ON namespace TO belfry_api;
GRANT USAGE ON SEQUENCE cursor_id_seq, queue_id_seq, permit_number TO belfry_api;


-- Row-level security
--
-- belfry_engine sees all rows, belfry_api those of its namespace. A table without a policy for a role shows it no rows.

-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['namespace', 'api_key', 'login_session', 'cursor', 'cursor_skip', 'audit_finding', 'job',
        'job_label', 'job_version', 'job_pause_end', 'run', 'run_history', 'run_output', 'run_output_live',
        'dead_letter', 'stat_minute', 'queue', 'queue_rate', 'namespace_rate',
        'permit', 'queue_waiter', 'namespace_usage', 'namespace_runs', 'cluster', 'session', 'partition',
        'failover', 'idempotent_response', 'operation', 'operation_item', 'operation_version', 'secret',
        'broker', 'cluster_key', 'audit_log']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY engine ON %I TO belfry_engine USING (true)', name);
    END LOOP;
END $$;
-- +goose StatementEnd
CREATE POLICY ended ON cluster_key AS RESTRICTIVE FOR DELETE TO belfry_engine USING (until < now());

-- Tables of the archive have nothing of a namespace. The functions that write them run with the rights of the owner,
-- whom this policy covers too. Users cannot reach archive_setting.
ALTER TABLE archive_day ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY everyone ON archive_day USING (true);

CREATE POLICY api ON namespace TO belfry_api USING (id = belfry_namespace());
CREATE POLICY api ON api_key TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON login_session TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON cursor TO belfry_api USING (namespace_id = belfry_namespace());
-- OFFSET 0 keeps PostgreSQL from reading all cursors of the namespace first.
CREATE POLICY api ON cursor_skip TO belfry_api USING (EXISTS (
    SELECT FROM cursor c
    WHERE c.partition = cursor_skip.partition AND c.id = cursor_skip.cursor_id
      AND c.namespace_id = belfry_namespace()
    OFFSET 0));
CREATE POLICY api ON audit_finding TO belfry_api USING (namespace_id = belfry_namespace());
-- No index can answer IS NOT DISTINCT FROM, and none should be used for this condition: PostgreSQL believes that a
-- namespace newer than the statistics has no jobs, and would read all of them instead of the one by its key. Lists name
-- the namespace themselves. namespace_id is never NULL, so a transaction without a namespace sees nothing.
CREATE POLICY api ON job TO belfry_api USING (namespace_id IS NOT DISTINCT FROM belfry_namespace());
CREATE POLICY api ON job_pause_end TO belfry_api USING (namespace_id IS NOT DISTINCT FROM belfry_namespace());
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
-- Rows of processes hold nothing of users.
CREATE POLICY api ON stat_minute TO belfry_api
    USING (namespace_id IN (belfry_namespace(), '00000000-0000-0000-0000-000000000000'));
CREATE POLICY api ON queue TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON queue_rate TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON namespace_rate TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON permit TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON queue_waiter TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace()));
CREATE POLICY api ON namespace_usage TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON namespace_runs TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON idempotent_response TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON operation TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON operation_item TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON operation_version TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON secret TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON broker FOR SELECT TO belfry_api
    USING (namespaces IS NULL OR belfry_namespace() = ANY (namespaces));
CREATE POLICY api ON audit_log TO belfry_api USING (namespace_id = belfry_namespace());

-- These belong to no namespace, and hold nothing of users. Creating and changing jobs plans runs, which asks the clock
-- of the cluster.
CREATE POLICY api ON partition TO belfry_api USING (true);
CREATE POLICY api ON cluster FOR SELECT TO belfry_api USING (true);
CREATE POLICY api ON failover FOR SELECT TO belfry_api USING (true);

-- A namespace sees the sessions of nodes, which belong to no namespace, and changes only those of its own workers.
CREATE POLICY api ON session TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api_read ON session FOR SELECT TO belfry_api
    USING (namespace_id IS NULL OR namespace_id = belfry_namespace());

-- Workers claim and complete runs of their own queue all the time. For these rows, PostgreSQL need not read all queues
-- of the namespace first, and a batch of reports may name queues of several namespaces.
CREATE POLICY worker ON run TO belfry_api USING (queue_id = ANY ((SELECT belfry_queues())::integer[]));
CREATE POLICY worker ON run_history TO belfry_api USING (queue_id = ANY ((SELECT belfry_queues())::integer[]));
CREATE POLICY worker ON permit TO belfry_api USING (queue_id = ANY ((SELECT belfry_queues())::integer[]));

-- +goose Down

-- The roles stay: other databases may use them.
-- +goose StatementBegin
DO $$
DECLARE
    policy record;
    name text;
BEGIN
    FOR policy IN SELECT polname, polrelid::regclass FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        WHERE c.relnamespace = current_schema()::regnamespace
    LOOP
        EXECUTE format('DROP POLICY %I ON %s', policy.polname, policy.polrelid);
        EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY', policy.polrelid);
    END LOOP;
    FOR name IN SELECT c.oid::regclass FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE t.tgfoid = 'belfry_note_late_run'::regproc
    LOOP
        EXECUTE format('DROP TRIGGER late ON %s', name);
    END LOOP;
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM belfry_api, belfry_engine', current_schema());
    EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %I FROM belfry_api, belfry_engine', current_schema());
END $$;
-- +goose StatementEnd
DROP TRIGGER cursor_skip_late ON cursor_skip;
DROP FUNCTION belfry_namespace, belfry_queues, belfry_create_canary, belfry_create_history, belfry_may_drop,
    belfry_drop_history, belfry_close_history, belfry_note_late_run, belfry_note_late_skip;
