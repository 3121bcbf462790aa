-- +goose Up

SET LOCAL lock_timeout = '500ms';

CREATE TABLE stat_minute (
    namespace_id uuid        NOT NULL,
    queue_id     integer     NOT NULL,
    minute       timestamptz NOT NULL,
    process_id   uuid        NOT NULL,
    started      bigint      NOT NULL,
    succeeded    bigint      NOT NULL,
    failed       bigint      NOT NULL,
    cancelled    bigint      NOT NULL,
    skipped      bigint      NOT NULL,
    missed       bigint      NOT NULL,
    late         bigint      NOT NULL,
    audited      bigint      NOT NULL,
    lateness     bigint[]    NOT NULL,
    PRIMARY KEY (namespace_id, queue_id, minute, process_id)
) WITH (fillfactor = 50);
-- Its expression is one that only prune uses: with an index on minute alone, PostgreSQL might read the minutes of all
-- namespaces for those of one.
CREATE INDEX stat_minute_age ON stat_minute ((minute AT TIME ZONE 'UTC'));
COMMENT ON TABLE stat_minute IS
    'What nodes did in each minute, as each of them counted it in memory. Statistics, not truth: a node that is killed '
    'loses what it counted since its last write. Each process writes its own rows only, and each of them whole.';
COMMENT ON COLUMN stat_minute.namespace_id IS
    'The namespace. All zeros: of the process itself, which shows that it was counting, even if there was nothing.';
COMMENT ON COLUMN stat_minute.queue_id IS '0: the sum of all queues of the namespace, and of whole schedules.';
COMMENT ON COLUMN stat_minute.minute IS 'When the minute began, by the clock of the database.';
COMMENT ON COLUMN stat_minute.process_id IS 'Random per process.';
COMMENT ON COLUMN stat_minute.started IS 'Attempts that started.';
COMMENT ON COLUMN stat_minute.skipped IS 'Occurrences that were skipped, without those that were missed.';
COMMENT ON COLUMN stat_minute.missed IS
    'Occurrences that were missed. A due time that no job of a schedule runs for counts once in each partition.';
COMMENT ON COLUMN stat_minute.late IS
    'Runs that had been due for more than 3 seconds and had not started, when they were last counted in the minute.';
COMMENT ON COLUMN stat_minute.audited IS 'Occurrences that the audit judged, in rows of the process itself.';
COMMENT ON COLUMN stat_minute.lateness IS 'How many attempts started how late, see job.Histogram. Empty: none.';
COMMENT ON INDEX stat_minute_pkey IS 'Overview and statistics: the minutes of a namespace or a queue.';
COMMENT ON INDEX stat_minute_age IS 'Prune: drops old minutes.';

GRANT SELECT, INSERT, UPDATE, DELETE ON stat_minute TO belfry_engine;
GRANT SELECT ON stat_minute TO belfry_api;
ALTER TABLE stat_minute ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON stat_minute TO belfry_engine USING (true);
-- Rows of processes hold nothing of users.
CREATE POLICY api ON stat_minute TO belfry_api
    USING (namespace_id IN (belfry_namespace(), '00000000-0000-0000-0000-000000000000'));

-- +goose Down

DROP TABLE stat_minute;
