-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- What people need to know about a job, and pauses that end by themselves

ALTER TABLE job
    ADD description  text        NOT NULL DEFAULT '',
    ADD owner        text        NOT NULL DEFAULT '',
    ADD created_by   text        NOT NULL DEFAULT '',
    ADD updated_by   text        NOT NULL DEFAULT '',
    ADD paused_by    text        NOT NULL DEFAULT '',
    ADD paused_until timestamptz;
COMMENT ON COLUMN job.description IS 'What the job is for, as the user wrote it.';
COMMENT ON COLUMN job.owner IS 'The person or team that is responsible for the job. Free text, for people only.';
COMMENT ON COLUMN job.created_by IS 'The actor that created the job.';
COMMENT ON COLUMN job.updated_by IS 'The actor of the change at updated_at.';
COMMENT ON COLUMN job.paused_by IS 'The actor that paused the job. Empty: it is not paused.';
COMMENT ON COLUMN job.paused_until IS
    'When Belfry resumes the paused job. NULL: it stays paused until a user resumes it.';
CREATE INDEX job_paused_until ON job (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON INDEX job_paused_until IS 'Resume: jobs whose pause ends. It holds only paused jobs with an end.';

-- +goose Down

ALTER TABLE job DROP description, DROP owner, DROP created_by, DROP updated_by, DROP paused_by, DROP paused_until;
