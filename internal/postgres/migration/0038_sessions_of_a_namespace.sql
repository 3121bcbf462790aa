-- +goose Up

SET LOCAL lock_timeout = '500ms';

CREATE INDEX session_namespace ON session (namespace_id) WHERE queue_id IS NOT NULL;
COMMENT ON INDEX session_namespace IS 'Open a session: counts those of the namespace.';

-- +goose Down

SET LOCAL lock_timeout = '500ms';

DROP INDEX session_namespace;
