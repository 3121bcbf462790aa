-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Whoever changes jobs locks job, and then namespace_usage. In the other order, they would wait for this
-- migration while it waits for them.
LOCK TABLE job IN SHARE ROW EXCLUSIVE MODE;

ALTER TABLE namespace_usage ADD storage bigint NOT NULL DEFAULT 0;
COMMENT ON TABLE namespace_usage IS
    'How many jobs a namespace has, and how many bytes of them: the sums of its rows. Triggers on job maintain it, so no '
    'statement can forget to.';
COMMENT ON COLUMN namespace_usage.storage IS
    'Bytes of payloads and target configurations, as counted in this row. It may be negative.';
COMMENT ON INDEX namespace_usage_pkey IS 'Job create, change and delete: counts. Quotas: the sum of a namespace.';

-- +goose StatementBegin
CREATE FUNCTION belfry_stored(payload text, target_config text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(octet_length(payload), 0)::bigint + octet_length(target_config)
$$;
CREATE FUNCTION belfry_count_usage(namespace uuid, more_jobs bigint, more_storage bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    -- By key and not by address: the row may have got a new version since this statement began.
    UPDATE namespace_usage SET jobs = jobs + more_jobs, storage = storage + more_storage
    WHERE namespace_id = namespace AND part = (
        SELECT u.part FROM namespace_usage u WHERE u.namespace_id = namespace LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO namespace_usage (namespace_id, jobs, storage) VALUES (namespace, more_jobs, more_storage);
    END IF;
END $$;
CREATE OR REPLACE FUNCTION belfry_count_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sign integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    PERFORM belfry_count_usage(c.id, c.jobs, c.storage)
    FROM (SELECT j.namespace_id AS id, sign * count(*) AS jobs,
                 (sign * sum(belfry_stored(j.payload, j.target_config)))::bigint AS storage
          FROM changed_job j GROUP BY j.namespace_id) c;
    RETURN NULL;
END $$;
CREATE FUNCTION belfry_count_storage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM belfry_count_usage(NEW.namespace_id, 0, belfry_stored(NEW.payload, NEW.target_config)
                                                    - belfry_stored(OLD.payload, OLD.target_config));
    RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_stored IS 'How many bytes of a job count for the quota of storage.';
COMMENT ON FUNCTION belfry_count_usage IS 'Adds to namespace_usage, in a row that no other transaction is changing.';
COMMENT ON FUNCTION belfry_count_jobs IS 'Trigger: keeps namespace_usage equal to the number of jobs and their bytes.';
COMMENT ON FUNCTION belfry_count_storage IS 'Trigger: keeps namespace_usage equal to the bytes of jobs that change.';
-- Only for statements that name these columns: plan, pause and finish do not.
CREATE TRIGGER job_count_update AFTER UPDATE OF payload, target_config ON job FOR EACH ROW
    WHEN (belfry_stored(NEW.payload, NEW.target_config) <> belfry_stored(OLD.payload, OLD.target_config))
    EXECUTE FUNCTION belfry_count_storage();

-- +goose Down

DROP TRIGGER job_count_update ON job;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION belfry_count_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed record;
BEGIN
    FOR changed IN
        SELECT j.namespace_id AS id, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END AS jobs
        FROM changed_job j GROUP BY j.namespace_id
    LOOP
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
DROP FUNCTION belfry_count_storage, belfry_count_usage, belfry_stored;
ALTER TABLE namespace_usage DROP storage;
