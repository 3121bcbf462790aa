-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE cursor ADD full_from timestamptz, ADD full_until timestamptz;
COMMENT ON COLUMN cursor.full_from IS
    'Since when plan leaves the cursor where it is, because its namespace has as many live runs as its quota allows. NULL: '
    'it does not. Older nodes do not know it, and plan what came due meanwhile.';
COMMENT ON COLUMN cursor.full_until IS 'When plan last did so. Occurrences from full_from until then are skipped.';
COMMENT ON COLUMN cursor.retry_at IS
    'When plan visits a cursor again that is broken, or whose namespace has as many live runs as its quota allows. Without '
    'it, such cursors would stay first in the order of next_due_at, and enough of them would keep plan from all others.';

-- +goose Down

COMMENT ON COLUMN cursor.retry_at IS
    'When plan retries a broken cursor. Without it, broken cursors would stay first in the order of next_due_at, '
    'and enough of them would keep plan from all others.';
ALTER TABLE cursor DROP full_from, DROP full_until;
