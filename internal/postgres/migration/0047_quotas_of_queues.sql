-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- A key of a worker opens sessions and creates queues, so both have a quota from the start. Namespaces that have many
-- queues already keep creating them.
ALTER TABLE namespace ADD max_queues bigint DEFAULT 10000, ADD max_sessions bigint DEFAULT 10000,
    ADD max_storage bigint;
UPDATE namespace n SET max_queues = NULL
WHERE EXISTS (SELECT FROM queue q WHERE q.namespace_id = n.id OFFSET 4999 LIMIT 1);
COMMENT ON COLUMN namespace.max_queues IS 'Quota: the maximum number of queues. NULL: no quota.';
COMMENT ON COLUMN namespace.max_sessions IS
    'Quota: the maximum number of sessions of workers. NULL: no quota. Older nodes allow 10,000 whatever it says.';
COMMENT ON COLUMN namespace.max_storage IS
    'Quota: how many bytes the payloads and target configurations of jobs may have. NULL: no quota.';

-- +goose Down

ALTER TABLE namespace DROP max_queues, DROP max_sessions, DROP max_storage;
