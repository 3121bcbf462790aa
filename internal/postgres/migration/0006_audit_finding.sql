-- +goose Up

SET LOCAL lock_timeout = '500ms';

CREATE TABLE audit_finding (
    partition    smallint    NOT NULL,
    job_id       uuid        NOT NULL,
    due_at       timestamptz NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('missing', 'phantom', 'early', 'duplicate')),
    namespace_id uuid        NOT NULL,
    found_at     timestamptz NOT NULL,
    PRIMARY KEY (partition, job_id, due_at, kind)
);
CREATE INDEX audit_finding_found ON audit_finding (found_at);
COMMENT ON TABLE audit_finding IS
    'Occurrences that are not in the ledger as they must be, as the audit found them. Empty in a healthy cluster.';
COMMENT ON COLUMN audit_finding.due_at IS 'The due time of the occurrence.';
COMMENT ON COLUMN audit_finding.kind IS
    'missing: the schedule demands it, and the ledger has no entry. phantom: the ledger has an entry, and the schedule '
    'does not demand it. early: it ran before its due time. duplicate: the ledger has it more than once.';
COMMENT ON COLUMN audit_finding.found_at IS 'When the audit found it first.';
COMMENT ON INDEX audit_finding_pkey IS 'The audit: records each finding once. Why: reads what was found.';
COMMENT ON INDEX audit_finding_found IS 'Prune: drops findings that are older than the retention of history.';

GRANT SELECT, INSERT, DELETE ON audit_finding TO belfry_engine;
GRANT SELECT ON audit_finding TO belfry_api;
ALTER TABLE audit_finding ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY engine ON audit_finding TO belfry_engine USING (true);
CREATE POLICY api ON audit_finding TO belfry_api USING (namespace_id = belfry_namespace());

-- +goose Down

DROP TABLE audit_finding;
