-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- The overview counts what a namespace skipped in the last hour, and must not read the ranges of all namespaces for it

ALTER TABLE cursor_skip ADD namespace_id uuid;
COMMENT ON COLUMN cursor_skip.namespace_id IS 'Of the cursor. NULL: written by an older node.';
CREATE INDEX cursor_skip_namespace ON cursor_skip (namespace_id, (created_at AT TIME ZONE 'UTC'))
    WHERE namespace_id IS NOT NULL AND reason NOT IN ('dst_gap', 'calendar');
COMMENT ON INDEX cursor_skip_namespace IS
    'Overview: what was skipped in the last hour. Gaps and calendars are no due times, so they are not in it. The time zone '
    'keeps PostgreSQL from cursor_skip_created, where it would find the ranges of all namespaces.';

-- OFFSET 0 keeps PostgreSQL from reading all cursors of the namespace first.
ALTER POLICY api ON cursor_skip USING (EXISTS (
    SELECT FROM cursor c
    WHERE c.partition = cursor_skip.partition AND c.id = cursor_skip.cursor_id
      AND c.namespace_id = belfry_namespace()
    OFFSET 0));

-- +goose Down

ALTER POLICY api ON cursor_skip USING (EXISTS (
    SELECT FROM cursor c
    WHERE c.partition = cursor_skip.partition AND c.id = cursor_skip.cursor_id
      AND c.namespace_id = belfry_namespace()));
DROP INDEX cursor_skip_namespace;
ALTER TABLE cursor_skip DROP namespace_id;
