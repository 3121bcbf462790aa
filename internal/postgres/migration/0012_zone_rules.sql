-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE partition ADD COLUMN zone_rules text;
COMMENT ON COLUMN partition.zone_rules IS
    'Identifies the time zone rules by which the due times of its cursors were computed. A node with other rules '
    'computes them again. NULL: unknown.';

-- +goose Down

ALTER TABLE partition DROP COLUMN zone_rules;
