-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE job_version ADD timeout_ms integer;
COMMENT ON COLUMN job_version.timeout_ms IS
    'As job.timeout_ms. It is for attempts of workers that were claimed before a change or the deletion of their job. NULL: '
    'an older node has written the version, and the timeout that the job has now applies.';

-- +goose Down

ALTER TABLE job_version DROP timeout_ms;
