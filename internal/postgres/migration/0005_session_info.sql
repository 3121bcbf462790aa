-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE session ADD info jsonb;
COMMENT ON COLUMN session.info IS
    'What a node reports about itself: version, settings that nodes must share, fingerprints. belfry doctor compares them.';

-- +goose Down
ALTER TABLE session DROP info;
