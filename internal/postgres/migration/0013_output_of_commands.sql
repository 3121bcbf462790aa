-- +goose Up

-- The end of what attempts wrote that run commands, with a partition for each day, like history. In a table of its own: it is
-- large, few jobs have it, and lists of runs do not read it.
CREATE TABLE run_output (
    partition    smallint    NOT NULL,
    seq          smallint    NOT NULL,
    attempt      smallint    NOT NULL,
    job_id       uuid        NOT NULL,
    due_at       timestamptz NOT NULL,
    ended_at     timestamptz NOT NULL,
    namespace_id uuid        NOT NULL,
    total        bigint      NOT NULL, -- bytes that there were, with those before output
    output       text        NOT NULL
) PARTITION BY RANGE (ended_at);
CREATE INDEX run_output_job ON run_output (job_id, due_at);

-- The same of attempts under way, written by their nodes now and then, for the other nodes to answer from. Not logged: after a
-- crash of the database it is empty until the next words of a command, and no standby has to carry it.
CREATE UNLOGGED TABLE run_output_live (
    partition    smallint    NOT NULL,
    seq          smallint    NOT NULL,
    attempt      smallint    NOT NULL,
    job_id       uuid        NOT NULL,
    due_at       timestamptz NOT NULL,
    namespace_id uuid        NOT NULL,
    total        bigint      NOT NULL,
    output       text        NOT NULL,
    PRIMARY KEY (partition, job_id, due_at, seq)
) WITH (fillfactor = 50);

-- As belfry_make_history and belfry_drop_history do.
-- +goose StatementBegin
CREATE FUNCTION belfry_make_output(ahead integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    day timestamp;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('belfry output'));
    FOR day IN SELECT generate_series(date_trunc('day', now() AT TIME ZONE 'UTC') - interval '1 day', date_trunc('day', now() AT TIME ZONE 'UTC') + ahead * interval '1 day', interval '1 day') LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF run_output FOR VALUES FROM (%L) TO (%L)',
            'run_output_' || to_char(day, 'YYYYMMDD'), day || '+00', (day + interval '1 day') || '+00');
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION belfry_drop_output(keep interval) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'run_output'::regclass
          AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (now() AT TIME ZONE 'UTC') - keep
        ORDER BY 1
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I', name);
        RETURN NEXT name;
    END LOOP;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION belfry_make_output, belfry_drop_output FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_make_output, belfry_drop_output TO belfry_engine;

GRANT SELECT, INSERT ON run_output TO belfry_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON run_output_live TO belfry_engine;
GRANT SELECT ON run_output, run_output_live TO belfry_api;
ALTER TABLE run_output ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE run_output_live ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON run_output TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON run_output_live TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY api ON run_output TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api ON run_output_live TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

DROP FUNCTION belfry_make_output, belfry_drop_output;
DROP TABLE run_output, run_output_live;
