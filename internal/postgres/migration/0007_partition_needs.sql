-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE partition ADD needs text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN partition.needs IS
    'Kinds of targets that runs of this partition need and an owner did not have. Nodes that have them all own the '
    'partition, if there are any.';

-- +goose Down
ALTER TABLE partition DROP needs;
