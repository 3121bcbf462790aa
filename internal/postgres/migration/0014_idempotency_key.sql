-- +goose Up

-- What a job's idempotency_key gave for a run, from its first attempt on; NULL: the run's id. It is kept, and not computed
-- again, so that no change of the job can change it.
ALTER TABLE run ADD COLUMN idempotency_key text;
ALTER TABLE run_history ADD COLUMN idempotency_key text;
ALTER TABLE dead_letter ADD COLUMN idempotency_key text;

-- +goose Down

ALTER TABLE dead_letter DROP COLUMN idempotency_key;
ALTER TABLE run_history DROP COLUMN idempotency_key;
ALTER TABLE run DROP COLUMN idempotency_key;
