-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE cluster ADD backed_up_at timestamptz;
COMMENT ON COLUMN cluster.backed_up_at IS
    'When the last backup of the database ended, as the script that made it reported. NULL: none was reported.';

-- +goose Down

ALTER TABLE cluster DROP backed_up_at;
