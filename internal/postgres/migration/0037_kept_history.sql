-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Runs that stay longer than their day of history
--
-- Before a day is dropped, a node copies the runs that a rule keeps to run_history_kept, page by page. They appear there
-- in the transaction that drops the day.

ALTER TABLE namespace ADD keep_history interval;
COMMENT ON COLUMN namespace.keep_history IS
    'How long finished runs are kept, if that is longer than the setting keep_history. NULL: the setting decides.';

ALTER TABLE job ADD keep_history interval, ADD keep_failures smallint;
COMMENT ON COLUMN job.keep_history IS 'As in namespace, for the runs of this job. NULL: the namespace decides.';
COMMENT ON COLUMN job.keep_failures IS
    'How many failed runs that are older than the history are kept, the newest ones. NULL: none.';

CREATE TABLE history_rule (namespace_id uuid PRIMARY KEY);
COMMENT ON TABLE history_rule IS
    'The namespaces in which a job has, or had, keep_history or keep_failures. Without one, no day has to be copied, and '
    'no node has to read all jobs to know that.';
COMMENT ON INDEX history_rule_pkey IS 'Job create and update: notes a namespace once.';

CREATE TABLE run_history_kept (LIKE run_history INCLUDING COMMENTS);
CREATE UNIQUE INDEX run_history_kept_job ON run_history_kept (job_id, due_at, seq, ended_at);
CREATE INDEX run_history_kept_unsuccessful ON run_history_kept (queue_id, ended, ended_at) WHERE ended <> 1;
CREATE INDEX run_history_kept_ended ON run_history_kept (ended_at);
CREATE INDEX run_history_kept_failed ON run_history_kept (job_id, ended_at, due_at, seq) WHERE ended = 2;
COMMENT ON TABLE run_history_kept IS
    'Runs of days that were dropped from run_history, which a rule of their job or namespace keeps. It has the columns of '
    'run_history in the same order.';
COMMENT ON INDEX run_history_kept_job IS 'As run_history_job. No run is copied twice.';
COMMENT ON INDEX run_history_kept_unsuccessful IS 'As run_history_unsuccessful.';
COMMENT ON INDEX run_history_kept_ended IS 'As run_history_ended.';
COMMENT ON INDEX run_history_kept_failed IS 'Prune: finds the last failed runs of a job.';

CREATE TABLE run_history_copy (
    day       date   PRIMARY KEY,
    next_page bigint NOT NULL,
    file      oid    NOT NULL
);
COMMENT ON TABLE run_history_copy IS
    'The days of history that are being copied to run_history_kept. Users see their runs in run_history only.';
COMMENT ON COLUMN run_history_copy.next_page IS 'The pages of the day''s table before this one are copied.';
COMMENT ON COLUMN run_history_copy.file IS
    'The file node of the day''s table. If it changes, rows may have moved, and the copy starts again.';
COMMENT ON INDEX run_history_copy_pkey IS 'Prune: reads and updates the progress of a day.';

ALTER TABLE cluster ADD kept_page bigint NOT NULL DEFAULT 0, ADD kept_swept_at timestamptz;
COMMENT ON COLUMN cluster.kept_page IS
    'The page of run_history_kept from which nodes go on to look for runs that no rule keeps any more.';
COMMENT ON COLUMN cluster.kept_swept_at IS 'When they last reached its end.';

CREATE VIEW run_history_all WITH (security_invoker = true) AS
SELECT * FROM run_history
UNION ALL
SELECT * FROM run_history_kept;
COMMENT ON VIEW run_history_all IS
    'All finished and skipped runs. It has no conditions, so that PostgreSQL can use the indexes of both tables in order.';

GRANT SELECT, INSERT, DELETE ON run_history_kept TO belfry_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON run_history_copy TO belfry_engine;
GRANT SELECT ON run_history_all TO belfry_engine, belfry_api;
GRANT SELECT ON run_history_kept, run_history_copy TO belfry_api;
GRANT SELECT ON history_rule TO belfry_engine;
GRANT SELECT, INSERT ON history_rule TO belfry_api;
ALTER TABLE history_rule ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON history_rule TO belfry_engine USING (true);
CREATE POLICY api ON history_rule TO belfry_api USING (namespace_id = belfry_namespace());
ALTER TABLE run_history_kept ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE run_history_copy ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON run_history_kept TO belfry_engine USING (true);
CREATE POLICY engine ON run_history_copy TO belfry_engine USING (true);
CREATE POLICY api ON run_history_copy TO belfry_api USING (true); -- holds nothing of users
-- The condition on the day is here and not in the view, where it would keep PostgreSQL from using the order of an index.
CREATE POLICY api ON run_history_kept TO belfry_api
    USING (queue_id IN (SELECT q.id FROM queue q WHERE q.namespace_id = belfry_namespace())
           AND (ended_at AT TIME ZONE 'UTC')::date <> ALL (ARRAY(SELECT c.day FROM run_history_copy c)));

CREATE FUNCTION belfry_keeps_runs() RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT EXISTS (SELECT FROM run_history_copy) OR EXISTS (SELECT FROM history_rule)
    OR EXISTS (SELECT FROM namespace WHERE keep_history IS NOT NULL) OR EXISTS (SELECT FROM run_history_kept)
$$;
COMMENT ON FUNCTION belfry_keeps_runs IS 'Whether a rule may keep runs longer than their day, or one did.';

-- Nodes of older versions call belfry_drop_history. They would drop runs that a rule keeps. It has the rights of the
-- caller, because row-level security may hide rules from the owner.
ALTER FUNCTION belfry_drop_history(interval) RENAME TO belfry_drop_oldest;
CREATE FUNCTION belfry_drop_history(keep interval) RETURNS SETOF text LANGUAGE sql AS $$
SELECT belfry_drop_oldest(keep) WHERE NOT belfry_keeps_runs()
$$;
COMMENT ON FUNCTION belfry_drop_history IS
    'Drops the oldest day of run_history or run_output as belfry_drop_oldest does, if no rule keeps runs longer.';

-- +goose StatementBegin
CREATE FUNCTION belfry_lock_history(name text, keep interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    overdue interval := now() AT TIME ZONE 'UTC' - keep - (to_date(right(name, 8), 'YYYYMMDD') + 1);
BEGIN
    -- The lock waits until no transaction uses the parent, and all later ones queue behind it. Where commits are slow, the
    -- first limit may be too short for ever, so a day that is still there after a day gets a longer one.
    PERFORM set_config('lock_timeout', CASE WHEN overdue < interval '1 day' THEN '100ms' ELSE '500ms' END, true);
    -- The locks that DROP takes anyway, and in its order. Behind them no row can come to the day: the lock of the day
    -- waits for statements that name its table.
    EXECUTE format('LOCK TABLE ONLY %I, ONLY %I IN ACCESS EXCLUSIVE MODE', left(name, -9), name);
    IF NOT belfry_may_drop(name) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('the archive does not have all rows of %s', name);
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE lock_not_available USING MESSAGE = format('%s is dropped later: other transactions use the history', name);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_lock_history IS
    'Locks a partition of run_history or run_output to drop it. It fails with object_not_in_prerequisite_state if the '
    'archive must have it first and does not, and with lock_not_available after 100 ms, or 500 ms if the partition ended '
    'more than a day longer than `keep` ago.';

-- +goose StatementBegin
CREATE FUNCTION belfry_drop_day(name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF name !~ '^run_(history|output)_[0-9]{8}$' THEN
        RAISE 'belfry_drop_day drops only days of history and output, and % is neither', name;
    END IF;
    IF NOT belfry_may_drop(name) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('the archive does not have all rows of %s', name);
    END IF;
    EXECUTE format('DROP TABLE %I', name);
    UPDATE archive_day SET dropped_at = now() WHERE name = to_char(day, '"run_history_"YYYYMMDD');
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_drop_day IS 'Drops a partition of run_history or run_output that belfry_lock_history locked.';

REVOKE ALL ON FUNCTION belfry_lock_history, belfry_drop_day, belfry_drop_history FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_lock_history, belfry_drop_day, belfry_drop_history, belfry_may_drop TO belfry_engine;
-- +goose StatementBegin
DO $$
BEGIN -- as in 0036
    EXECUTE format('ALTER FUNCTION belfry_lock_history SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION belfry_drop_day SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION belfry_lock_history, belfry_drop_day, belfry_drop_history, belfry_keeps_runs;
ALTER FUNCTION belfry_drop_oldest(interval) RENAME TO belfry_drop_history;
REVOKE EXECUTE ON FUNCTION belfry_may_drop FROM belfry_engine;
DROP VIEW run_history_all;
DROP TABLE run_history_kept, run_history_copy, history_rule;
ALTER TABLE cluster DROP kept_page, DROP kept_swept_at;
ALTER TABLE job DROP keep_history, DROP keep_failures;
ALTER TABLE namespace DROP keep_history;
