-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE job ADD deadline interval;
COMMENT ON COLUMN job.deadline IS
    'Within which time after its due time a run has to start for the first time. NULL: at any time. Claim compares it for '
    'runs whose rule (admit) says so.';
COMMENT ON COLUMN job.admit IS
    'What claim has to check before a run starts: 0 nothing, 1 nothing unless another run of the job is live, 2 always '
    'ask job.Admit (earlier versions), 3 nothing unless another run of the job is live or an older one is due. With '
    '4 the deadline of the job too. If the run does not meet it, job.Admit decides.';
COMMENT ON COLUMN run.admit IS
    'Copied from the job. What claim has to check before the run starts: 0 nothing, 1 nothing unless another run of '
    'the job is live, 2 always ask job.Admit (earlier versions), 3 nothing unless another run of the job is live or an '
    'older one is due. With 4 the deadline of the job too. If the run does not meet it, job.Admit decides.';

-- +goose Down

COMMENT ON COLUMN run.admit IS
    'Copied from the job. What claim has to decide before the run starts: 0 nothing, 1 nothing unless another run of '
    'the job is live, 2 always ask job.Admit.';
COMMENT ON COLUMN job.admit IS
    'What claim has to decide before a run starts: 0 nothing, 1 nothing unless another run of the job is live, '
    '2 always ask job.Admit.';
ALTER TABLE job DROP deadline;
