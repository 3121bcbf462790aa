-- +goose Up

SET LOCAL lock_timeout = '500ms';

ALTER TABLE run ADD deferred_from timestamptz;
COMMENT ON COLUMN run.deferred_from IS
    'When a run that was deferred, and never delivered, could have started for the first time. NULL: it was not deferred, '
    'or an attempt of it has failed. The run is late from then on, although run_at is later.';
CREATE INDEX run_due ON run ((queue_id::bigint), run_at);
COMMENT ON INDEX run_due IS
    'Counts and lists of live runs, by queue and run time: those that are due or in progress are read, however many are '
    'planned for later. Claim changes neither column, so its update stays HOT. The cast keeps other statements from it: a '
    'statement that wants this index writes the cast too.';
CREATE INDEX run_retry ON run (queue_id, run_at)
    WHERE attempts IS NOT NULL OR deferred_reason IS NOT NULL OR origin = 4;
COMMENT ON INDEX run_retry IS
    'Counts and lists of live runs: those that wait for another attempt. Claim changes no column of its condition. Runs '
    'that were never tried are not in it.';

-- +goose Down

DROP INDEX run_retry, run_due;
ALTER TABLE run DROP deferred_from;
