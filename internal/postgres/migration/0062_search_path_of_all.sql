-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- As in 0036, now for all functions that name a schema. Functions with the rights of the owner call some of them: while
-- these run, their own search_path replaces that of the caller.
-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc
             WHERE proconfig::text LIKE '%search_path=%' AND pronamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

ALTER FUNCTION belfry_may_drop(text) SET search_path FROM CURRENT;
ALTER FUNCTION belfry_contract(bigint) SET search_path FROM CURRENT;
ALTER FUNCTION belfry_check_node() SET search_path FROM CURRENT;
