-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Migrations that remove what older nodes use
--
-- A node works on a schema that is newer than it knows, so that nodes of two versions work together during an upgrade.
-- A migration that breaks older nodes calls belfry_contract with its own number, and only belfry migrate --contract
-- applies it.

ALTER TABLE cluster ADD COLUMN oldest_schema bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN cluster.oldest_schema IS
    'The number of the last contract migration: it removed what nodes use that do not know it. 0: there was none.';

-- +goose StatementBegin
CREATE FUNCTION belfry_contract(version bigint) RETURNS void LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    nodes text;
BEGIN
    -- Registrations and renewals wait for the end of the migration, and then find the new number.
    LOCK TABLE session IN SHARE ROW EXCLUSIVE MODE;
    UPDATE cluster SET oldest_schema = version WHERE only_row;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the table cluster has no row that this role may change';
    END IF;
    SELECT string_agg(format('%s (%s)', name, coalesce(nullif(info ->> 'version', ''), 'unknown version')), ', '
                      ORDER BY name, id)
    INTO nodes FROM session
    WHERE queue_id IS NULL /* nodes */ AND expires_at > now() AND coalesce((info ->> 'schema')::bigint, 0) < version;
    IF nodes IS NOT NULL THEN
        RAISE EXCEPTION 'it removes what live nodes of an older version use; upgrade or stop them: %', nodes
            USING ERRCODE = 'BF002';
    END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_contract IS
    'First statement of a contract migration, with the number of that migration. It fails with BF002 if a live node does '
    'not know the migration, and keeps such nodes from registering and renewing from then on.';

-- +goose StatementBegin
CREATE FUNCTION belfry_check_node() RETURNS trigger LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
BEGIN
    IF coalesce((NEW.info ->> 'schema')::bigint, 0) < (SELECT oldest_schema FROM cluster WHERE only_row) THEN
        RAISE EXCEPTION 'a contract migration removed what this node uses; start a newer version' USING ERRCODE = 'BF002';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_check_node IS
    'Trigger on session: a node has no session on a schema that it cannot work with, even if it is of a version without '
    'a check of its own, or was suspended since its check.';
CREATE TRIGGER session_node BEFORE INSERT OR UPDATE OF expires_at ON session
    FOR EACH ROW WHEN (NEW.queue_id IS NULL AND NEW.expires_at > '-infinity') EXECUTE FUNCTION belfry_check_node();

REVOKE ALL ON FUNCTION belfry_contract, belfry_check_node FROM PUBLIC;

-- +goose Down

DROP TRIGGER session_node ON session;
DROP FUNCTION belfry_contract, belfry_check_node;
ALTER TABLE cluster DROP COLUMN oldest_schema;
