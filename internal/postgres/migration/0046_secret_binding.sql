-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Where a secret may be used
--
-- Nodes of older versions do not know these columns: they deliver a secret wherever a job names it, and keep them when
-- they replace its value.

ALTER TABLE secret ADD hosts text[], ADD kinds text[];
COMMENT ON COLUMN secret.hosts IS 'The hosts that may receive it, such as hooks.example.com or *.example.com. NULL: all.';
COMMENT ON COLUMN secret.kinds IS 'The kinds of targets that may use it. NULL: all.';

ALTER TABLE namespace ADD secret_version integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN namespace.secret_version IS
    'The highest version of a secret that was deleted. New secrets have a higher one, so that no name has a version twice.';
GRANT UPDATE (secret_version) ON namespace TO belfry_api;

-- +goose Down

REVOKE UPDATE (secret_version) ON namespace FROM belfry_api;
ALTER TABLE namespace DROP secret_version;
ALTER TABLE secret DROP hosts, DROP kinds;
