-- +goose Up

-- Lists go back in time by this index. Unless the ranges of today's pages are summed up soon, all of those that are not have to be read.
DROP INDEX run_history_ended;
CREATE INDEX run_history_ended ON run_history USING brin (ended_at) WITH (pages_per_range = 32, autosummarize = on);

-- Who did what to one object.
CREATE INDEX audit_log_object ON audit_log (namespace_id, object, seq);

ALTER TABLE queue
    ADD COLUMN paused_at timestamptz, -- since when
    ADD COLUMN note      text NOT NULL DEFAULT ''; -- why
CREATE INDEX queue_paused ON queue (id) WHERE paused;

-- Work on many dead letters, done by whichever node, a few at a time. Who works on it has the lease until a time of the
-- database; when it dies, the next one goes on: what is done is gone from dead_letter, in the same transaction that counts it.
CREATE TABLE operation (
    id           uuid        PRIMARY KEY,
    namespace_id uuid        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('redrive', 'discard')),
    filter       text        NOT NULL, -- JSON
    until        timestamptz NOT NULL, -- dead letters that failed later are none of its
    rate         integer     NOT NULL, -- per second
    state        text        NOT NULL CHECK (state IN ('running', 'finished', 'aborted')),
    count        bigint      NOT NULL, -- when it began
    done         bigint      NOT NULL DEFAULT 0,
    failed       bigint      NOT NULL DEFAULT 0,
    actor        text        NOT NULL,
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    next_at      timestamptz NOT NULL, -- it may be worked on from then on
    mark         text        NOT NULL DEFAULT '' -- the last dead letter that was looked at
);
CREATE INDEX operation_namespace ON operation (namespace_id, id);
CREATE INDEX operation_due ON operation (next_at) WHERE state = 'running';

GRANT SELECT, INSERT, UPDATE, DELETE ON operation TO belfry_engine, belfry_api;
ALTER TABLE operation ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON operation TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY api ON operation TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

DROP TABLE operation;
DROP INDEX queue_paused;
ALTER TABLE queue DROP COLUMN note, DROP COLUMN paused_at;
DROP INDEX audit_log_object;
DROP INDEX run_history_ended;
CREATE INDEX run_history_ended ON run_history USING brin (ended_at) WITH (pages_per_range = 32);
