-- +goose Up

-- Accepted runs that were not reported in time. A claim leaves expires_at alone, so its update stays HOT; a run that was never accepted is not in it.
CREATE INDEX run_expires ON run (partition, expires_at) WHERE expires_at IS NOT NULL;

-- A cursor that cannot be planned (a schedule that this version cannot read) steps aside until retry_at: were it to stay first in
-- the order of next_due_at, enough of them would be all that plan ever sees.
ALTER TABLE cursor
    ADD COLUMN broken_at timestamptz, -- since when; NULL: it is not
    ADD COLUMN retry_at  timestamptz,
    ADD COLUMN problem   text,
    ADD COLUMN plan_at   timestamptz GENERATED ALWAYS AS (coalesce(retry_at, next_due_at)) STORED;
DROP INDEX cursor_due;
CREATE INDEX cursor_due ON cursor (partition, plan_at);
CREATE INDEX cursor_broken ON cursor (broken_at) WHERE broken_at IS NOT NULL;

-- What prune removes, in the order in which it may. keep is of one-offs alone. An instant without a zone, as the sum is then the same
-- for every reader, which a generated column has to be.
ALTER TABLE job
    ADD COLUMN keep      interval,
    ADD COLUMN remove_at timestamp GENERATED ALWAYS AS ((finished_at AT TIME ZONE 'UTC') + keep) STORED; -- UTC
CREATE INDEX job_remove ON job (remove_at) WHERE remove_at IS NOT NULL;
CREATE INDEX job_end ON job (end_at) WHERE state = 1 AND end_at IS NOT NULL;
-- With job_cursor, whether a cursor has any job left.
CREATE INDEX job_cursor_rest ON job (partition, cursor_id) WHERE state <> 1;
CREATE INDEX cursor_skip_made ON cursor_skip (made_at);

-- Of a redriven run: attempts that count no more. NULL takes no room in the others.
ALTER TABLE run ADD COLUMN base smallint;

-- +goose Down

ALTER TABLE run DROP COLUMN base;
DROP INDEX cursor_skip_made, job_cursor_rest, job_end, job_remove;
ALTER TABLE job DROP COLUMN remove_at, DROP COLUMN keep;
DROP INDEX cursor_broken, cursor_due, run_expires;
ALTER TABLE cursor DROP COLUMN plan_at, DROP COLUMN problem, DROP COLUMN retry_at, DROP COLUMN broken_at;
CREATE INDEX cursor_due ON cursor (partition, next_due_at);
