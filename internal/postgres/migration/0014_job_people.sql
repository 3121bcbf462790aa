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

-- An index on job would lock that table for as long as it takes to read all of it.
CREATE TABLE job_pause_end (
    partition    smallint    NOT NULL,
    resume_at    timestamptz NOT NULL,
    job_id       uuid        NOT NULL,
    namespace_id uuid        NOT NULL,
    PRIMARY KEY (partition, resume_at, job_id)
);
COMMENT ON TABLE job_pause_end IS
    'Paused jobs that Belfry resumes, by time. The row of a deleted job is removed when its time comes.';
COMMENT ON COLUMN job_pause_end.resume_at IS
    'job.paused_until, or when Belfry retries to resume a job that could not be resumed.';
COMMENT ON INDEX job_pause_end_pkey IS 'Resume: jobs whose pause ends.';

GRANT SELECT, INSERT, UPDATE, DELETE ON job_pause_end TO belfry_engine;
GRANT SELECT, INSERT, DELETE ON job_pause_end TO belfry_api;
ALTER TABLE job_pause_end ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON job_pause_end TO belfry_engine USING (true);
-- IS NOT DISTINCT FROM, as for job: see 0002_row_security.sql.
CREATE POLICY api ON job_pause_end TO belfry_api USING (namespace_id IS NOT DISTINCT FROM belfry_namespace());

-- +goose Down

DROP TABLE job_pause_end;
ALTER TABLE job DROP description, DROP owner, DROP created_by, DROP updated_by, DROP paused_by, DROP paused_until;
