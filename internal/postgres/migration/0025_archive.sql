-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Days of history that are archived before they are dropped

CREATE TABLE archive_day (
    day         date        PRIMARY KEY,
    generation  integer     NOT NULL DEFAULT 1,
    epoch       bigint      NOT NULL DEFAULT 0,
    owner       uuid,
    tried_at    timestamptz,
    changed     boolean     NOT NULL DEFAULT false,
    closed_at   timestamptz NOT NULL,
    archived_at timestamptz,
    dropped_at  timestamptz,
    runs        bigint,
    run_keys    numeric,
    skips       bigint,
    skip_keys   numeric,
    files       integer,
    bytes       bigint,
    manifest    text
);
COMMENT ON TABLE archive_day IS
    'Days of history that are closed: exported to the archive, or to be exported. A node takes a day, exports and '
    'verifies it, and notes what it did. If the node dies, another one takes the day.';
COMMENT ON COLUMN archive_day.day IS 'In UTC: of ended_at in run_history, and of created_at in cursor_skip.';
COMMENT ON COLUMN archive_day.generation IS
    'Counts the exports with different content. The archive never overwrites an object, so each has its own names.';
COMMENT ON COLUMN archive_day.epoch IS 'Counts the owners. A write of an earlier owner finds another epoch.';
COMMENT ON COLUMN archive_day.owner IS 'The session that exports the day. NULL: none.';
COMMENT ON COLUMN archive_day.tried_at IS
    'When a session took the day last. NULL: it was not taken since it was closed or archived. A day that fails, or that '
    'kills its node, so comes after those that were not tried for longer.';
COMMENT ON COLUMN archive_day.changed IS
    'Whether rows of the day came after it was closed or taken: it has to be exported again, and is not dropped.';
COMMENT ON COLUMN archive_day.archived_at IS 'When the archived day was verified. NULL: it is not archived yet.';
COMMENT ON COLUMN archive_day.dropped_at IS 'When the day was dropped from run_history, or found missing there.';
COMMENT ON COLUMN archive_day.runs IS 'How many rows of run_history the archive has.';
COMMENT ON COLUMN archive_day.run_keys IS 'Sum of the hashes of their keys, see archive.Sum.';
COMMENT ON COLUMN archive_day.skips IS 'How many rows of cursor_skip the archive has.';
COMMENT ON COLUMN archive_day.skip_keys IS 'Sum of the hashes of their keys.';
COMMENT ON COLUMN archive_day.files IS 'How many objects the archived day has, without its manifest.';
COMMENT ON COLUMN archive_day.bytes IS 'The size of those objects.';
COMMENT ON COLUMN archive_day.manifest IS 'The name of the object that describes the day.';
COMMENT ON INDEX archive_day_pkey IS 'Archive: notes about a day, and marks by late rows.';

CREATE TABLE archive_setting (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    required boolean NOT NULL DEFAULT false
);
INSERT INTO archive_setting DEFAULT VALUES;
COMMENT ON TABLE archive_setting IS
    'What all nodes must agree on about the archive. It is here and not only in their settings: a node with other '
    'settings, or of another version, must not drop a day.';
COMMENT ON COLUMN archive_setting.required IS 'Whether a day of history may be dropped only if the archive has it.';
COMMENT ON INDEX archive_setting_pkey IS 'Keeps it one row.';

-- Users cannot reach either table. Row-level security is not forced, because the functions below run with the rights of
-- the owner, who would see no row.
GRANT SELECT, UPDATE ON archive_day, archive_setting TO belfry_engine; -- only a function adds days, no role removes one

-- The triggers below also write a mark that is set. Their lock on the row keeps nodes from taking the day, and so from
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

-- As before, and what the archive requires is held back.
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

REVOKE ALL ON FUNCTION belfry_note_late_run, belfry_note_late_skip, belfry_close_history, belfry_may_drop FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_close_history TO belfry_engine;

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE t.tgfoid = 'belfry_note_late_run'::regproc
    LOOP
        EXECUTE format('DROP TRIGGER late ON %I', name);
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION belfry_drop_history(keep interval) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    overdue interval;
    name text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('belfry history')) THEN
        RETURN;
    END IF;
    SELECT c.relname, now() AT TIME ZONE 'UTC' - keep - (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)
    INTO name, overdue
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('run_history'::regclass, 'run_output'::regclass)
    ORDER BY 2 DESC, 1 LIMIT 1;
    IF NOT FOUND OR overdue < interval '0' THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', CASE WHEN overdue < interval '1 day' THEN '100ms' ELSE '500ms' END, true);
    EXECUTE format('DROP TABLE IF EXISTS %I', name);
    RETURN NEXT name;
EXCEPTION WHEN lock_not_available THEN
    RAISE lock_not_available USING MESSAGE = format('%s is dropped later: other transactions use the history', name);
END $$;
-- +goose StatementEnd
DROP TRIGGER cursor_skip_late ON cursor_skip;
DROP FUNCTION belfry_note_late_run, belfry_note_late_skip, belfry_close_history, belfry_may_drop;
DROP TABLE archive_day, archive_setting;
