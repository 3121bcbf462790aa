-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Jobs that were there before 0053. Their pending runs keep the rule 2, which asks job.Admit.
UPDATE job SET deadline = (policy::jsonb ->> 'deadline')::interval,
    admit = CASE coalesce(policy::jsonb ->> 'overlap', 'skip')
                WHEN 'allow' THEN 0 WHEN 'skip' THEN 1 ELSE 3 END
        + CASE WHEN policy::jsonb ? 'deadline' THEN 4 ELSE 0 END
WHERE admit = 2;

-- +goose Down

UPDATE job SET admit = 2 WHERE admit > 2;
