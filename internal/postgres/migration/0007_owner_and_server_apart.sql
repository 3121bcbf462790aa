-- +goose Up

-- Row-level security holds the tables' owner too, if it is no superuser: without these roles its statements, those of
-- later migrations among them, would change no row and say nothing.
-- +goose StatementBegin
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['belfry_api', 'belfry_engine'] LOOP
        IF NOT pg_has_role(current_user, name, 'USAGE') THEN
            EXECUTE format('GRANT %I TO %I', name, current_user);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- A server reads keys and namespaces. Keys are made and revoked as belfry_api, inside one namespace; namespaces by the
-- owner; and what is in the audit log stays.
REVOKE INSERT, UPDATE, DELETE ON api_key, namespace FROM belfry_engine;
REVOKE UPDATE, DELETE ON audit_log FROM belfry_engine;
REVOKE DELETE ON api_key FROM belfry_api;

-- No index can answer IS NOT DISTINCT FROM, and for this condition none shall: of a namespace that is newer than the
-- statistics PostgreSQL believes that it has no jobs, and would read all of them instead of the one by its key. Lists name
-- the namespace themselves. namespace_id is never NULL, so that without a namespace there is nothing to see.
ALTER POLICY api ON job USING (namespace_id IS NOT DISTINCT FROM belfry_namespace());

-- +goose Down

ALTER POLICY api ON job USING (namespace_id = belfry_namespace());

GRANT INSERT, UPDATE, DELETE ON api_key, namespace TO belfry_engine;
GRANT UPDATE, DELETE ON audit_log TO belfry_engine;
GRANT DELETE ON api_key TO belfry_api;
