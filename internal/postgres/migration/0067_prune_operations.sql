-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Prune of operations that ended long ago

CREATE INDEX operation_ended ON operation (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON INDEX operation_ended IS 'Prune: drops operations that ended before the retention of history.';

GRANT DELETE ON operation_item, operation_version TO belfry_engine;

-- +goose Down

REVOKE DELETE ON operation_item, operation_version FROM belfry_engine;
DROP INDEX operation_ended;
