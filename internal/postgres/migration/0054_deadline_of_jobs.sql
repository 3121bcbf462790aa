-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Jobs that were there before 0053. Their pending runs keep the rule 2, which asks job.Admit. A day of a deadline has 24
-- hours, whatever the time zone.
UPDATE job SET deadline = make_interval(secs => extract(epoch FROM (policy::jsonb ->> 'deadline')::interval)::float8),
    admit = CASE coalesce(policy::jsonb ->> 'overlap', 'skip')
                WHEN 'allow' THEN 0 WHEN 'skip' THEN 1 ELSE 3 END
        + CASE WHEN policy::jsonb ? 'deadline' THEN 4 ELSE 0 END
WHERE admit = 2;

-- +goose Down

UPDATE job SET admit = 2 WHERE admit > 2;
