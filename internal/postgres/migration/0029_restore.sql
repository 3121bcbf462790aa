-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Restores of the database to an earlier time
--
-- A restored database has forgotten which runs were delivered since. Nodes notice it when they trust the clock again, and
-- hold what was due in the forgotten time until an operator accepts the restore.

-- +goose StatementBegin
CREATE FUNCTION belfry_system() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system());
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_system IS
    'The system identifier of the server. 0 on a service that does not have the function of PostgreSQL for it.';

ALTER TABLE cluster
    ADD trusted_system   bigint      NOT NULL DEFAULT 0,
    ADD trusted_timeline bigint      NOT NULL DEFAULT 0,
    ADD restored_from    timestamptz,
    ADD restored_until   timestamptz,
    ADD held_from        timestamptz NOT NULL DEFAULT '-infinity',
    ADD held_until       timestamptz NOT NULL DEFAULT '-infinity',
    ADD attempt_base     smallint    NOT NULL DEFAULT 0;
COMMENT ON COLUMN cluster.trusted_system IS 'The system identifier of the server at trusted_at. 0: unknown.';
COMMENT ON COLUMN cluster.trusted_timeline IS 'The timeline of the server at trusted_at. 0: unknown.';
COMMENT ON COLUMN cluster.restored_from IS
    'The last time that a node trusted before the database was restored: what happened later is forgotten. NULL: the '
    'database was never restored.';
COMMENT ON COLUMN cluster.restored_until IS
    'When a node noticed the restore. Occurrences before it that were not planned are skipped with the reason '
    'restored. Attempts of runs that are due before it have numbers above attempt_base.';
COMMENT ON COLUMN cluster.held_from IS
    'Runs that are due from here until held_until do not start, because they may have been delivered in the forgotten '
    'time. Accepting a part of the restore moves it on.';
COMMENT ON COLUMN cluster.held_until IS 'The end of what is held: restored_until. Nothing is held if it is held_from.';
COMMENT ON COLUMN cluster.attempt_base IS
    'The attempt numbers of runs that are due before restored_until begin above it, so that a target that fences by '
    'them never receives a number that it has seen.';

-- +goose Down

ALTER TABLE cluster DROP trusted_system, DROP trusted_timeline, DROP restored_from, DROP restored_until,
    DROP held_from, DROP held_until, DROP attempt_base;
DROP FUNCTION belfry_system;
