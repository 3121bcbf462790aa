-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Days of history are created and dropped while runs end and while backups read the history. A statement that waits for
-- an ACCESS EXCLUSIVE lock on run_history makes every completion queue behind it, so these functions wait briefly.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION belfry_create_history(ahead integer) RETURNS void
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
CREATE OR REPLACE FUNCTION belfry_drop_history(keep interval) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    overdue interval;
    name text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('belfry history')) THEN
        RETURN; -- another node is doing it
    END IF;
    SELECT c.relname, now() AT TIME ZONE 'UTC' - keep - (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)
    INTO name, overdue
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('run_history'::regclass, 'run_output'::regclass)
    ORDER BY 2 DESC, 1 LIMIT 1;
    IF NOT FOUND OR overdue < interval '0' THEN
        RETURN;
    END IF;
    -- DROP waits until no transaction uses the parent, and all later ones queue behind it. Where commits are slow, the
    -- first limit may be too short for ever, so a day that is still there after a day gets a longer one.
    PERFORM set_config('lock_timeout', CASE WHEN overdue < interval '1 day' THEN '100ms' ELSE '500ms' END, true);
    EXECUTE format('DROP TABLE IF EXISTS %I', name);
    RETURN NEXT name;
EXCEPTION WHEN lock_not_available THEN
    RAISE lock_not_available USING MESSAGE = format('%s is dropped later: other transactions use the history', name);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_drop_history IS
    'Drops the oldest partition of run_history or run_output that ended longer than `keep` ago, and returns its name. '
    'One call drops one day, so that completions never wait for two. It fails with lock_not_available if the day '
    'cannot be locked at once.';

-- Servers of the previous version call these two as well. The functions above do their work.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION belfry_create_output(ahead integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS '';
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_create_output IS 'Does nothing: belfry_create_history creates the partitions of run_output.';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION belfry_drop_output(keep interval) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$ SELECT NULL::text WHERE false $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_drop_output IS 'Does nothing: belfry_drop_history drops the partitions of run_output.';

-- +goose Down

-- The functions stay: they serve the previous version too.
