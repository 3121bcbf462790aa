-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- What nodes and workers can do, and who waits for them. Sessions are written at every renewal anyway.

ALTER TABLE session ADD slots integer, ADD slots_free integer, ADD handlers text[];
COMMENT ON COLUMN session.slots IS
    'How many attempts a node, or runs a worker, has at most at the same time. NULL: the process did not report it.';
COMMENT ON COLUMN session.slots_free IS 'How many slots of a node were free when it was renewed last. NULL: a worker.';
COMMENT ON COLUMN session.handlers IS 'The handlers for which a worker has claimed runs. NULL: it has not claimed yet.';

COMMENT ON INDEX audit_log_object IS 'Why: who paused, cancelled or deleted an object. Audit list by object.';

-- +goose Down

ALTER TABLE session DROP slots, DROP slots_free, DROP handlers;
COMMENT ON INDEX audit_log_object IS 'Why: who paused, cancelled or deleted an object.';
