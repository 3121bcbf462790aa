-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- The trace that a triggered run continues is known after its end too: spans are created then, and the run shows its
-- trace. Other runs derive theirs from their key and store nothing.

ALTER TABLE run_history ADD trace text;
COMMENT ON COLUMN run_history.trace IS 'As in run.';

-- +goose Down

ALTER TABLE run_history DROP trace;
