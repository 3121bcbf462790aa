-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Failovers of the database
--
-- Each promotion of a standby, and each restore, begins a new timeline. If the new primary had not received all that the
-- old one acknowledged, the difference is lost. Nodes notice it and list it here.

-- +goose StatementBegin
CREATE FUNCTION belfry_timeline() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_timeline IS
    'The timeline that the server writes to. 0 on a service that does not have the functions of PostgreSQL for it.';

ALTER TABLE cluster ADD timeline bigint NOT NULL DEFAULT 0, ADD synchronous boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN cluster.timeline IS 'The timeline that nodes saw last. 0: none yet.';
COMMENT ON COLUMN cluster.synchronous IS
    'Whether commits waited for a standby when nodes saw that last. It says what a failover could lose.';

CREATE TABLE failover (
    timeline        bigint      PRIMARY KEY,
    timeline_before bigint      NOT NULL,
    noticed_at      timestamptz NOT NULL,
    received_until  timestamptz,
    synchronous     boolean     NOT NULL,
    lost            boolean     NOT NULL
);
COMMENT ON TABLE failover IS
    'Failovers of the database, and restores of it. Writes that were acknowledged between received_until and noticed_at '
    'are lost if lost is true, and may be lost if both lost and synchronous are false.';
COMMENT ON COLUMN failover.timeline IS 'The timeline that began.';
COMMENT ON COLUMN failover.timeline_before IS 'The timeline that nodes had seen before.';
COMMENT ON COLUMN failover.noticed_at IS
    'When a node first renewed its session on the new timeline; if a node misses a write, when that node did.';
COMMENT ON COLUMN failover.received_until IS
    'When the last transaction committed that the new primary had received, or an earlier time. NULL: unknown.';
COMMENT ON COLUMN failover.synchronous IS 'Whether commits on the old primary waited for a standby.';
COMMENT ON COLUMN failover.lost IS 'Whether a node missed a write of its own that was acknowledged.';
COMMENT ON INDEX failover_pkey IS 'A failover is recorded once.';

GRANT SELECT, INSERT, UPDATE, DELETE ON failover TO belfry_engine;
ALTER TABLE failover ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON failover TO belfry_engine USING (true);

-- +goose Down

DROP TABLE failover;
ALTER TABLE cluster DROP timeline, DROP synchronous;
DROP FUNCTION belfry_timeline;
