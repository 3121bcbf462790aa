-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Operations on many jobs and runs, with the items that could not be changed

ALTER TABLE operation
    ADD change     text    NOT NULL DEFAULT '{}',
    ADD count_more boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT operation_kind_check,
    ADD CONSTRAINT operation_kind_check CHECK (kind IN (
        'redrive', 'discard', 'pause', 'resume', 'trigger', 'delete', 'relabel', 'spread', 'cancel', 'retry'));
COMMENT ON TABLE operation IS
    'Work on many dead letters, jobs or runs. Any node works on any of them, a few items at a time. Whoever changes an '
    'item also moves resume_after in the same transaction, if no other node has moved it. If the node dies, another '
    'one continues there.';
COMMENT ON COLUMN operation.kind IS
    'Of dead letters: redrive, discard. Of jobs: pause, resume, trigger, delete, relabel, spread. Of runs: cancel, retry.';
COMMENT ON COLUMN operation.filter IS
    'Which dead letters, JSON of job.DeadFilter. Which jobs or runs, JSON of job.OperationSet.';
COMMENT ON COLUMN operation.failed_until IS
    'Dead letters that failed later, jobs that were created later and runs that were due or ended later are not part of '
    'the operation.';
COMMENT ON COLUMN operation.change IS 'What changes in each job, JSON of job.OperationChange.';
COMMENT ON COLUMN operation.rate IS 'Items per second.';
COMMENT ON COLUMN operation.count IS 'How many items matched when the operation was created.';
COMMENT ON COLUMN operation.count_more IS 'Whether there were more than count, which is bounded.';
COMMENT ON COLUMN operation.done IS 'How many items were changed.';
COMMENT ON COLUMN operation.failed IS 'How many items could not be, for example because the run is live.';
COMMENT ON COLUMN operation.resume_after IS
    'JSON position of the last item that was processed. The next batch starts after it.';

CREATE TABLE operation_item (
    operation_id uuid        NOT NULL,
    number       integer     NOT NULL,
    namespace_id uuid        NOT NULL,
    at           timestamptz NOT NULL,
    object       text        NOT NULL,
    name         text        NOT NULL,
    error        text        NOT NULL,
    PRIMARY KEY (operation_id, number)
);
COMMENT ON TABLE operation_item IS
    'Jobs and runs that an operation could not change, the first 1,000 of each operation.';
COMMENT ON COLUMN operation_item.number IS 'Counts the failed items of an operation from 1.';
COMMENT ON COLUMN operation_item.object IS 'Public id of the job or the run.';
COMMENT ON COLUMN operation_item.name IS 'Name of the job. Empty: unknown.';
COMMENT ON COLUMN operation_item.error IS 'Why it could not be changed.';
COMMENT ON INDEX operation_item_pkey IS 'Operation items.';

GRANT SELECT, INSERT ON operation_item TO belfry_engine, belfry_api;
ALTER TABLE operation_item ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON operation_item TO belfry_engine USING (true);
CREATE POLICY api ON operation_item TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

DROP TABLE operation_item;
DELETE FROM operation WHERE kind NOT IN ('redrive', 'discard');
ALTER TABLE operation DROP change, DROP count_more, DROP CONSTRAINT operation_kind_check,
    ADD CONSTRAINT operation_kind_check CHECK (kind IN ('redrive', 'discard'));
