-- +goose Up

SET LOCAL lock_timeout = '500ms';

CREATE INDEX run_deadline ON run (partition, due_at) WHERE coalesce(handler, '') <> '' AND admit & 4 = 4;
COMMENT ON INDEX run_deadline IS
    'Rescue: runs for workers whose deadline passes before a worker asks for them. Runs that nodes deliver, and runs '
    'without a deadline, are not in it. Claim changes no column of it. The coalesce keeps its statement from run_feed.';

-- +goose Down

DROP INDEX run_deadline;
