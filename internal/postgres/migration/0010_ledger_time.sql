-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- +goose StatementBegin
CREATE FUNCTION belfry_ledger_time() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT CASE WHEN belfry_clock_trusted() THEN now() ELSE trusted_at END FROM cluster WHERE only_row);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_ledger_time IS
    'The end of a run that succeeds: now, or the last time that the cluster trusted if the clock is in doubt. A known '
    'success must not wait, because its node may die, and a wrong time must not enter the ledger.';

-- +goose Down

DROP FUNCTION belfry_ledger_time;
