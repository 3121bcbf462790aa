-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- The row `report` stays as it is until the operator rotates the key, because nodes of the version before read it.
ALTER TABLE cluster_key ALTER secret DROP NOT NULL, ADD sealed bytea,
    ADD use_at timestamptz NOT NULL DEFAULT now(), ADD until timestamptz,
    ADD CONSTRAINT cluster_key_one CHECK ((secret IS NULL) <> (sealed IS NULL));
COMMENT ON TABLE cluster_key IS
    'Keys that all nodes of the cluster share. They sign the tokens that allow a target to report on one run: the '
    'newest whose `use_at` has passed signs, and each is accepted before its `until`. The first one is named `report`.';
COMMENT ON COLUMN cluster_key.secret IS 'The key, not encrypted. NULL: it is in `sealed`.';
COMMENT ON COLUMN cluster_key.sealed IS 'The key, encrypted with the keyset of secrets and bound to its name.';
COMMENT ON COLUMN cluster_key.use_at IS 'When nodes begin to sign with it. By then all of them have read it.';
COMMENT ON COLUMN cluster_key.until IS
    'When nodes stop accepting it, and delete it. NULL: it was not replaced.';
COMMENT ON COLUMN cluster.oldest_schema IS
    'The number of the last contract migration: it removed what nodes use that do not know it. Or 50, if the key of run '
    'tokens was rotated: nodes that do not know several keys would sign with the old one. 0: there was neither.';
COMMENT ON INDEX cluster_key_pkey IS 'Reseal. Nodes read all rows once a minute.';

-- Nodes encrypt keys again after a change of the keyset, and delete those that have ended. They add none.
GRANT UPDATE (sealed), DELETE ON cluster_key TO belfry_engine;
CREATE POLICY ended ON cluster_key AS RESTRICTIVE FOR DELETE TO belfry_engine USING (until < now());

-- +goose Down

UPDATE cluster SET oldest_schema = least(oldest_schema, 49) WHERE only_row;
DROP POLICY ended ON cluster_key;
REVOKE UPDATE (sealed), DELETE ON cluster_key FROM belfry_engine;
DELETE FROM cluster_key WHERE name <> 'report' OR until < now();
INSERT INTO cluster_key (name, secret)
VALUES ('report', decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'))
ON CONFLICT DO NOTHING;
ALTER TABLE cluster_key DROP sealed, DROP use_at, DROP until, ALTER secret SET NOT NULL;
