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

-- +goose Down

DROP INDEX cursor_broken, cursor_due, run_expires;
ALTER TABLE cursor DROP COLUMN plan_at, DROP COLUMN problem, DROP COLUMN retry_at, DROP COLUMN broken_at;
CREATE INDEX cursor_due ON cursor (partition, next_due_at);
