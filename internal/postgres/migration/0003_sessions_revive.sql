-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Sessions that may revive
--
-- A session that could not be renewed has expired, but its process may be alive: the database was down, or its clock
-- jumped. Its process may renew it until another node ends it.

ALTER TABLE session ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN session.renewed_at IS
    'When the session was renewed last. expires_at - renewed_at is how long a renewal lasts.';
COMMENT ON COLUMN session.expires_at IS
    'In the time of the database. Once it has passed, nothing more is leased to the session, and others may take its '
    'partitions. -infinity: the session has ended. A session that has expired and not ended can be renewed, and keeps '
    'its runs.';

CREATE TABLE cluster (
    only_row boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    seen_at  timestamptz NOT NULL DEFAULT now(),
    up_since timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
COMMENT ON TABLE cluster IS 'One row: what all nodes know together.';
COMMENT ON COLUMN cluster.only_row IS 'Always true, so that there is one row.';
COMMENT ON COLUMN cluster.seen_at IS 'When a node renewed its session last. It may be half a second older than that.';
COMMENT ON COLUMN cluster.up_since IS
    'Since when nodes have been renewing without a gap of more than two seconds. An expired session is ended twice its '
    'TTL later at the earliest, so that after an outage all processes have time to renew.';
COMMENT ON INDEX cluster_pkey IS 'Allows one row.';
INSERT INTO cluster DEFAULT VALUES;

GRANT SELECT, UPDATE ON cluster TO belfry_engine;
ALTER TABLE cluster ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON cluster TO belfry_engine USING (true);

-- +goose Down

DROP TABLE cluster;
ALTER TABLE session DROP COLUMN renewed_at;
COMMENT ON COLUMN session.expires_at IS 'In the time of the database. A session that has expired never comes back.';
