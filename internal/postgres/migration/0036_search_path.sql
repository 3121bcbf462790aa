-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- Functions with the rights of the owner name the schema where they find tables, and then pg_temp. Without its name,
-- temporary tables of the caller come first.
-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE prosecdef AND pronamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE prosecdef AND pronamespace = current_schema()::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I', f, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd
