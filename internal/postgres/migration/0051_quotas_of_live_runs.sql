-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE namespace ADD max_live_runs bigint;
COMMENT ON COLUMN namespace.max_live_runs IS
    'Quota: the maximum number of runs that have not ended. With as many, schedules add none. NULL: no quota.';

CREATE TABLE namespace_runs (
    namespace_id uuid        PRIMARY KEY,
    runs         bigint      NOT NULL,
    is_full      boolean     NOT NULL,
    counted_at   timestamptz NOT NULL,
    took         interval    NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX namespace_runs_full ON namespace_runs (namespace_id) WHERE is_full;
COMMENT ON TABLE namespace_runs IS
    'How many live runs a namespace with a quota of them has. One node at a time counts them, every ten seconds.';
COMMENT ON COLUMN namespace_runs.is_full IS 'Whether these are as many as the quota allows, or more.';
COMMENT ON COLUMN namespace_runs.took IS 'How long the count took. Counts that take long are less frequent.';
COMMENT ON INDEX namespace_runs_pkey IS 'Count of live runs. Quotas: how much is used. Resume: whether the namespace is full.';
COMMENT ON INDEX namespace_runs_full IS 'Plan: the namespaces that are full. There are few of them.';

GRANT SELECT, INSERT, UPDATE, DELETE ON namespace_runs TO belfry_engine;
GRANT SELECT ON namespace_runs TO belfry_api;
ALTER TABLE namespace_runs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON namespace_runs TO belfry_engine USING (true);
CREATE POLICY api ON namespace_runs TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

DROP TABLE namespace_runs;
ALTER TABLE namespace DROP max_live_runs;
