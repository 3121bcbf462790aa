-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- The time in which nodes renewed their sessions
--
-- A session that has expired is ended when its process had time to renew it. An outage of the database does not count,
-- and a short stall only delays the end.

ALTER TABLE cluster ADD alive interval NOT NULL DEFAULT '0';
COMMENT ON COLUMN cluster.alive IS
    'For how long nodes have been renewing their sessions, in all. Each renewal adds the time since the last one of any node, '
    'but a second at most.';
COMMENT ON COLUMN cluster.up_since IS
    'Used by older nodes only. Since when nodes have been renewing without a gap of more than two seconds.';

CREATE FUNCTION belfry_alive() RETURNS interval LANGUAGE sql STABLE SET search_path FROM CURRENT
    RETURN (SELECT alive FROM cluster WHERE only_row);
COMMENT ON FUNCTION belfry_alive IS 'For how long nodes have been renewing their sessions, in all.';

ALTER TABLE session ADD alive interval NOT NULL DEFAULT belfry_alive();
COMMENT ON COLUMN session.alive IS
    'cluster.alive when the session was renewed last. A session that has expired is ended when that has grown by what a '
    'renewal lasts, and after an outage by twice of it, so that its process has time to renew it.';
GRANT UPDATE (alive) ON session TO belfry_api;

-- +goose Down

COMMENT ON COLUMN cluster.up_since IS
    'Since when nodes have been renewing without a gap of more than two seconds. An expired session is ended twice its TTL '
    'later at the earliest, so that after an outage all processes have time to renew.';
ALTER TABLE session DROP alive;
DROP FUNCTION belfry_alive;
ALTER TABLE cluster DROP alive;
