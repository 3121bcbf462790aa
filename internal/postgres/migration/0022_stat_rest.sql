-- +goose Up

SET LOCAL lock_timeout = '500ms';

COMMENT ON COLUMN stat_minute.queue_id IS
    '0: the sum of all queues of the namespace, and of whole schedules. -1: the sum of the queues that have no row of '
    'their own, because the process counted too many. Without such a row, nothing happened in a queue without a row.';

-- +goose Down

COMMENT ON COLUMN stat_minute.queue_id IS '0: the sum of all queues of the namespace, and of whole schedules.';
