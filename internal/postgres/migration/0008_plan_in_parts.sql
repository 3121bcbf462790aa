-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Plan writes a bounded number of runs in one transaction, so a cursor may stop between two caught-up runs, or between
-- two jobs of one due time.

ALTER TABLE cursor ADD COLUMN paced_to timestamptz, ADD COLUMN after_job uuid, ADD COLUMN after_origin smallint;
COMMENT ON COLUMN cursor.paced_to IS
    'While missed occurrences are planned: when the next caught-up run may start. NULL: now.';
COMMENT ON COLUMN cursor.after_job IS
    'Jobs up to this one have their run of next_due_at: all jobs were too many for one transaction. NULL: none has it.';
COMMENT ON COLUMN cursor.after_origin IS
    'Origin of those runs, which the other jobs get too: 0 schedule, 3 missed (caught up late). NULL: none.';

-- +goose Down

ALTER TABLE cursor DROP COLUMN paced_to, DROP COLUMN after_job, DROP COLUMN after_origin;
