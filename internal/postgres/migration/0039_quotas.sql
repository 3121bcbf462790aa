-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Quotas of namespaces
--
-- The owner of the database sets them. No server may: see the rights on namespace in 0002.

ALTER TABLE namespace ADD max_jobs bigint, ADD max_keys bigint, ADD max_secrets bigint,
    ADD max_runs_per_minute integer;
COMMENT ON COLUMN namespace.max_jobs IS 'Quota: the maximum number of jobs. NULL: no quota.';
COMMENT ON COLUMN namespace.max_keys IS 'Quota: the maximum number of API keys that are valid. NULL: no quota.';
COMMENT ON COLUMN namespace.max_secrets IS 'Quota: the maximum number of secrets. NULL: no quota.';
COMMENT ON COLUMN namespace.max_runs_per_minute IS
    'Quota: how many attempts may start per minute. Copied to the queues of the namespace. NULL: no quota.';


-- The number of jobs
--
-- A transaction adds to any row of its namespace that no other transaction is changing, or to a new one. So none waits
-- for another, and there are about as many rows as transactions that changed jobs at the same time.

CREATE TABLE namespace_usage (
    namespace_id uuid    NOT NULL,
    part         integer NOT NULL GENERATED ALWAYS AS IDENTITY,
    jobs         bigint  NOT NULL,
    PRIMARY KEY (namespace_id, part)
) WITH (fillfactor = 50);
COMMENT ON SEQUENCE namespace_usage_part_seq IS 'Numbers of parts.';
COMMENT ON TABLE namespace_usage IS
    'How many jobs a namespace has: the sum of its rows. Triggers on job maintain it, so no statement can forget to.';
COMMENT ON COLUMN namespace_usage.part IS
    'A transaction changes one row that no other transaction is changing, so that none waits for another.';
COMMENT ON COLUMN namespace_usage.jobs IS 'Jobs created minus jobs deleted, as counted in this row. It may be negative.';
COMMENT ON INDEX namespace_usage_pkey IS 'Job create and delete: counts. Quotas: the sum of a namespace.';

-- +goose StatementBegin
CREATE FUNCTION belfry_count_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed record;
BEGIN
    FOR changed IN
        SELECT j.namespace_id AS id, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END AS jobs
        FROM changed_job j GROUP BY j.namespace_id
    LOOP
        -- By key and not by address: the row may have got a new version since this statement began.
        UPDATE namespace_usage SET jobs = jobs + changed.jobs
        WHERE namespace_id = changed.id AND part = (
            SELECT u.part FROM namespace_usage u WHERE u.namespace_id = changed.id LIMIT 1 FOR UPDATE SKIP LOCKED);
        IF NOT FOUND THEN
            INSERT INTO namespace_usage (namespace_id, jobs) VALUES (changed.id, changed.jobs);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_count_jobs IS 'Trigger: keeps namespace_usage equal to the number of jobs.';
CREATE TRIGGER job_count_insert AFTER INSERT ON job REFERENCING NEW TABLE AS changed_job
    FOR EACH STATEMENT EXECUTE FUNCTION belfry_count_jobs();
CREATE TRIGGER job_count_delete AFTER DELETE ON job REFERENCING OLD TABLE AS changed_job
    FOR EACH STATEMENT EXECUTE FUNCTION belfry_count_jobs();


-- Runs per minute

ALTER TABLE queue ADD max_runs_per_minute integer;
COMMENT ON COLUMN queue.max_runs_per_minute IS
    'Copied from the namespace, whose queues share one token bucket, so that a claim reads one row. NULL: no quota.';
ALTER TABLE queue DROP limited;
ALTER TABLE queue ADD limited boolean NOT NULL GENERATED ALWAYS AS (
    max_running IS NOT NULL OR rate IS NOT NULL OR max_runs_per_minute IS NOT NULL) STORED;
CREATE INDEX queue_limited ON queue (id) WHERE limited;
COMMENT ON COLUMN queue.limited IS 'Whether the queue has any limit, or its namespace a quota of runs.';
COMMENT ON INDEX queue_limited IS 'Claim: excludes runs of limited queues. There are few of them.';

-- +goose StatementBegin
CREATE FUNCTION belfry_queue_quota() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.max_runs_per_minute := (SELECT n.max_runs_per_minute FROM namespace n WHERE n.id = NEW.namespace_id);
    RETURN NEW;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_queue_quota IS 'Trigger: a new queue has the quota of its namespace.';
CREATE TRIGGER queue_quota BEFORE INSERT ON queue FOR EACH ROW EXECUTE FUNCTION belfry_queue_quota();

CREATE TABLE namespace_rate (
    namespace_id uuid             PRIMARY KEY,
    tokens       double precision NOT NULL,
    refilled_at  timestamptz      NOT NULL
) WITH (fillfactor = 10);
COMMENT ON TABLE namespace_rate IS 'Token buckets of namespaces with a quota of runs, as queue_rate for queues.';
COMMENT ON COLUMN namespace_rate.tokens IS 'How many tokens the bucket held at refilled_at.';
COMMENT ON INDEX namespace_rate_pkey IS 'Claim under limits.';


-- Rights

GRANT SELECT, INSERT, UPDATE, DELETE ON namespace_usage, namespace_rate TO belfry_engine;
GRANT SELECT, INSERT, UPDATE ON namespace_usage, namespace_rate TO belfry_api;
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['namespace_usage', 'namespace_rate'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY engine ON %I TO belfry_engine USING (true)', name);
        EXECUTE format('CREATE POLICY api ON %I TO belfry_api USING (namespace_id = belfry_namespace())', name);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

DROP TRIGGER job_count_insert ON job;
DROP TRIGGER job_count_delete ON job;
DROP TRIGGER queue_quota ON queue;
DROP FUNCTION belfry_count_jobs, belfry_queue_quota;
DROP TABLE namespace_usage, namespace_rate;
ALTER TABLE queue DROP limited;
ALTER TABLE queue DROP max_runs_per_minute;
ALTER TABLE queue ADD limited boolean NOT NULL GENERATED ALWAYS AS (max_running IS NOT NULL OR rate IS NOT NULL) STORED;
CREATE INDEX queue_limited ON queue (id) WHERE limited;
ALTER TABLE namespace DROP max_jobs, DROP max_keys, DROP max_secrets, DROP max_runs_per_minute;
