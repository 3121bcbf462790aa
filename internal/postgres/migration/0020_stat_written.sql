-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE stat_minute ADD written_at timestamptz;
COMMENT ON COLUMN stat_minute.written_at IS
    'In rows of the process itself: when it last wrote. If that is in the minute and long ago, the process was killed, '
    'and what it counted afterwards is lost. infinity: it stopped in order. NULL: a node of an older version wrote it.';

-- +goose Down

ALTER TABLE stat_minute DROP written_at;
