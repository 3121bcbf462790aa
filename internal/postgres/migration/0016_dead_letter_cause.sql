-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Dead letters that exist already get their reason as their cause: what SQL can do of job.Cause.
ALTER TABLE dead_letter
    ADD status smallint NOT NULL DEFAULT 0,
    ADD cause  text     COLLATE "C" NOT NULL DEFAULT 'unknown';
UPDATE dead_letter SET cause = reason;
CREATE INDEX dead_letter_cause ON dead_letter (queue_id, cause, failed_at);
COMMENT ON COLUMN dead_letter.status IS 'Status code of the target''s protocol, such as an HTTP status. 0: none.';
COMMENT ON COLUMN dead_letter.cause IS
    'The key of failures that look alike, see job.Cause. The reason alone if the run failed before there were causes. '
    'unknown: a node of an older version wrote the row during an upgrade.';
COMMENT ON INDEX dead_letter_cause IS
    'Dead letter summary: finds the causes of a queue one by one and counts each. Dead letter list, and the batches of '
    'operations, by cause.';

-- +goose Down

DROP INDEX dead_letter_cause;
ALTER TABLE dead_letter DROP status, DROP cause;
