-- +goose Up

-- Each filter of a list has an index that begins with what it asks for and ends with the id, in whose order lists are:
-- a page costs the same whether half of the jobs match or three. Their operators are leakproof, so that row-level
-- security lets them be used; those of GIN indexes on labels are not.
CREATE INDEX job_state ON job (namespace_id, state, id);
CREATE INDEX job_queue ON job (namespace_id, queue_id, id);
CREATE INDEX job_target ON job (namespace_id, target_kind, id);
-- Jobs that begin later.
CREATE INDEX job_plan_from ON job (namespace_id, plan_from, id) WHERE state = 1;
-- The id as a part of the key: the jobs of a cursor are listed in its order.
DROP INDEX job_cursor;
CREATE INDEX job_cursor ON job (partition, cursor_id, id)
    INCLUDE (queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at) WHERE state = 1;

-- The labels of jobs, once more: kept by triggers, so that no statement can forget it.
CREATE TABLE job_label (
    namespace_id uuid NOT NULL,
    key          text COLLATE "C" NOT NULL,
    value        text COLLATE "C" NOT NULL,
    job_id       uuid NOT NULL,
    PRIMARY KEY (namespace_id, key, value, job_id)
);
INSERT INTO job_label SELECT j.namespace_id, l.key, l.value, j.id FROM job j, jsonb_each_text(j.labels) l;
-- +goose StatementBegin
CREATE FUNCTION belfry_job_label() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO job_label SELECT j.namespace_id, l.key, l.value, j.id FROM new_job j, jsonb_each_text(j.labels) l;
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM job_label USING old_job j, jsonb_each_text(j.labels) l
        WHERE job_label.namespace_id = j.namespace_id AND job_label.key = l.key AND job_label.value = l.value AND job_label.job_id = j.id;
    ELSE
        DELETE FROM job_label USING jsonb_each_text(OLD.labels) l
        WHERE job_label.namespace_id = OLD.namespace_id AND job_label.key = l.key AND job_label.value = l.value AND job_label.job_id = OLD.id;
        INSERT INTO job_label SELECT NEW.namespace_id, l.key, l.value, NEW.id FROM jsonb_each_text(NEW.labels) l;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER job_label_insert AFTER INSERT ON job REFERENCING NEW TABLE AS new_job FOR EACH STATEMENT EXECUTE FUNCTION belfry_job_label();
CREATE TRIGGER job_label_delete AFTER DELETE ON job REFERENCING OLD TABLE AS old_job FOR EACH STATEMENT EXECUTE FUNCTION belfry_job_label();
-- Only where labels are set: the planner's updates of jobs must not pay for it.
CREATE TRIGGER job_label_update AFTER UPDATE OF labels ON job FOR EACH ROW WHEN (OLD.labels <> NEW.labels) EXECUTE FUNCTION belfry_job_label();

-- Parts of names. Where the extension cannot be had, a search goes through the jobs in pages.
-- +goose StatementBegin
DO $$
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'no extension pg_trgm (%): searches for parts of names will be slow', SQLERRM;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_opclass WHERE opcname = 'gin_trgm_ops' AND pg_opclass_is_visible(oid)) THEN
        -- Entries wait in a list until it has 2 MB, which makes them half as dear; a search reads that list too.
        CREATE INDEX job_name_part ON job USING gin (name gin_trgm_ops) WITH (gin_pending_list_limit = 2048);
    END IF;
END $$;
-- +goose StatementEnd

-- The answers to requests with an Idempotency-Key, for a day: written in the transaction of what was asked for. A bulk
-- of several transactions has a part for each.
CREATE TABLE answer (
    namespace_id uuid        NOT NULL,
    key          text        COLLATE "C" NOT NULL,
    part         smallint    NOT NULL,
    request      bytea       NOT NULL, -- SHA-256
    body         text,                 -- JSON; NULL only while its transaction lasts
    made_at      timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, key, part)
);
CREATE INDEX answer_made ON answer (made_at);

GRANT SELECT, INSERT, UPDATE, DELETE ON job_label, answer TO belfry_engine, belfry_api;
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['job_label', 'answer'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY engine ON %I TO belfry_engine USING (true) WITH CHECK (true)', name);
        EXECUTE format('CREATE POLICY api ON %I TO belfry_api USING (namespace_id = belfry_namespace())', name);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

-- The extension stays: it may have been there before, and others may use it.
DROP TABLE answer;
DROP INDEX IF EXISTS job_name_part;
DROP TRIGGER job_label_insert ON job;
DROP TRIGGER job_label_delete ON job;
DROP TRIGGER job_label_update ON job;
DROP FUNCTION belfry_job_label;
DROP TABLE job_label;
DROP INDEX job_state, job_queue, job_target, job_plan_from, job_cursor;
CREATE INDEX job_cursor ON job (partition, cursor_id)
    INCLUDE (id, queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at) WHERE state = 1;
