-- +goose Up

-- Accepted runs that were not reported in time. A claim leaves expires_at alone, so its update stays HOT; a run that was never accepted is not in it.
CREATE INDEX run_expires ON run (partition, expires_at) WHERE expires_at IS NOT NULL;

-- +goose Down

DROP INDEX run_expires;
