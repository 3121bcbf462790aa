-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- The clock of the cluster
--
-- A wrong clock that is believed starts everything that is due in the next year and drops the history of the last one.
-- Nodes keep the last time that they trusted, and statements that cannot be undone compare their time with it. So a
-- node that stood still between its own check and such a statement destroys nothing either.

ALTER TABLE cluster ADD COLUMN trusted_at timestamptz;
COMMENT ON COLUMN cluster.trusted_at IS
    'The last time that a node trusted the clock of the database, or that an operator confirmed it. Renewals move it '
    'on. While the clock is more than 30 s away from it, the clock is in doubt. NULL: no node has trusted it yet.';

-- belfry_api reads it too: creating and changing jobs plans runs.
GRANT SELECT ON cluster TO belfry_api;
CREATE POLICY api ON cluster FOR SELECT TO belfry_api USING (true);

-- +goose StatementBegin
CREATE FUNCTION belfry_clock_trusted(at timestamptz DEFAULT now()) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((
        SELECT at BETWEEN trusted_at - interval '30 s' AND trusted_at + interval '30 s' FROM cluster WHERE only_row),
        true);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_clock_trusted IS
    'Whether a time is within 30 s of the last time that the cluster trusted. Statements that plan, claim, end, rescue '
    'or remove something by the clock ask it once, in the transaction that they change.';

-- +goose StatementBegin
CREATE FUNCTION belfry_clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF NOT belfry_clock_trusted(at) THEN
        RAISE EXCEPTION 'the clock of the database is in doubt' USING ERRCODE = 'BF001';
    END IF;
    RETURN at;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_clock IS 'The time of a change. It fails with BF001 while the clock is in doubt.';

-- +goose Down

DROP FUNCTION belfry_clock, belfry_clock_trusted;
DROP POLICY api ON cluster;
REVOKE SELECT ON cluster FROM belfry_api;
ALTER TABLE cluster DROP COLUMN trusted_at;
