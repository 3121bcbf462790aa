-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- The payload of a trigger is kept as long as the run, so that every ended run can be retried with what it was
-- triggered with. Other runs have the payload of their job and store nothing.

ALTER TABLE run_history ADD payload text;
ALTER TABLE run_history_kept ADD payload text;
COMMENT ON COLUMN run_history.payload IS 'As in run.';
COMMENT ON COLUMN run_history_kept.payload IS 'As in run.';
COMMENT ON COLUMN dead_letter.payload IS 'As in run. A dead letter may stay longer than its history.';

CREATE OR REPLACE VIEW run_history_all WITH (security_invoker = true) AS
SELECT * FROM run_history
UNION ALL
SELECT * FROM run_history_kept;

-- +goose Down

DROP VIEW run_history_all;
ALTER TABLE run_history DROP payload;
ALTER TABLE run_history_kept DROP payload;
COMMENT ON COLUMN dead_letter.payload IS 'Payload of the trigger, if the run had its own. History does not keep it.';
CREATE VIEW run_history_all WITH (security_invoker = true) AS
SELECT * FROM run_history
UNION ALL
SELECT * FROM run_history_kept;
COMMENT ON VIEW run_history_all IS
    'All finished and skipped runs. It has no conditions, so that PostgreSQL can use the indexes of both tables in order.';
GRANT SELECT ON run_history_all TO belfry_engine, belfry_api;
