-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE stat_minute
    ADD attempts bigint NOT NULL DEFAULT 0,
    ADD attempt_ms bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN stat_minute.attempts IS 'Attempts that ended.';
COMMENT ON COLUMN stat_minute.attempt_ms IS 'How long those attempts took together, in milliseconds.';

-- +goose Down

ALTER TABLE stat_minute DROP attempts, DROP attempt_ms;
