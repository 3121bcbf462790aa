-- +goose Up

-- What users store for their targets, sealed with a key that the database does not have. Each value is sealed for its
-- namespace, name and version: a row that is moved elsewhere does not open there.
CREATE TABLE secret (
    namespace_id   uuid        NOT NULL,
    name           text        NOT NULL,
    version        integer     NOT NULL,
    value          bytea       NOT NULL,
    previous       bytea, -- the value of the version before
    previous_until timestamptz, -- so long receivers may still know only that one
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    updated_by     text        NOT NULL,
    PRIMARY KEY (namespace_id, name)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON secret TO belfry_api;
GRANT SELECT, UPDATE (value, previous) ON secret TO belfry_engine; -- it reads them, and seals them anew
ALTER TABLE secret ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON secret TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY api ON secret TO belfry_api USING (namespace_id = belfry_namespace());

-- The key under which the nodes of this cluster sign the tokens that let a target report on one run.
CREATE TABLE cluster_key (
    name   text  PRIMARY KEY,
    secret bytea NOT NULL CHECK (length(secret) = 32)
);
INSERT INTO cluster_key VALUES ('report', decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
GRANT SELECT ON cluster_key TO belfry_engine;
ALTER TABLE cluster_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON cluster_key TO belfry_engine USING (true);

-- The trace of whoever triggered a run, to be continued.
ALTER TABLE run ADD COLUMN trace text;

-- +goose Down

ALTER TABLE run DROP COLUMN trace;
DROP TABLE cluster_key, secret;
