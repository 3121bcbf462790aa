-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Nodes keep a job of their own, the canary, in a namespace of its own. Only the owner creates namespaces, and this one
-- on behalf of nodes.
-- +goose StatementBegin
CREATE FUNCTION belfry_create_canary(canary uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO namespace (id, name) VALUES (canary, 'belfry-canary') ON CONFLICT DO NOTHING;
    RETURN EXISTS (SELECT FROM namespace WHERE id = canary AND name = 'belfry-canary');
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_create_canary IS
    'Creates the namespace belfry-canary with this id, unless it exists. Returns false if its name or its id is taken.';
REVOKE ALL ON FUNCTION belfry_create_canary FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry_create_canary TO belfry_engine;

-- +goose Down

DROP FUNCTION belfry_create_canary;
