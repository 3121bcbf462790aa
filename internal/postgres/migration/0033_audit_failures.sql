-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE archive_day ADD audit_failures smallint NOT NULL DEFAULT 0;
COMMENT ON COLUMN archive_day.audit_failures IS
    'How often the audit of the day failed since it last succeeded. A day that is archived and has some is not audited.';

-- +goose Down

ALTER TABLE archive_day DROP audit_failures;
