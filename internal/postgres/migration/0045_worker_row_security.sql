-- +goose Up

SET LOCAL lock_timeout = '500ms';

-- What a node does on behalf of a worker, or of a target that reports on a run, it does as belfry_api in the namespace
-- of the worker's key or of the target's token, as for users. These are the rights that only workers need.

GRANT UPDATE (renewed_at, expires_at, handlers) ON session TO belfry_api;
GRANT INSERT, UPDATE ON queue_rate TO belfry_api;
GRANT SELECT ON failover TO belfry_api;
CREATE POLICY api ON failover FOR SELECT TO belfry_api USING (true); -- belongs to no namespace, holds nothing of users

-- A namespace sees the sessions of nodes, which belong to no namespace, and changes only those of its own workers.
DROP POLICY api ON session;
CREATE POLICY api ON session TO belfry_api USING (namespace_id = belfry_namespace());
CREATE POLICY api_read ON session FOR SELECT TO belfry_api
    USING (namespace_id IS NULL OR namespace_id = belfry_namespace());

-- Workers claim and complete runs of their own queue all the time. For these rows, PostgreSQL need not read all queues
-- of the namespace first, and a batch of reports may name queues of several namespaces.
-- +goose StatementBegin
CREATE FUNCTION belfry_queues() RETURNS integer[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT nullif(current_setting('belfry.queues', true), '')::integer[]
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION belfry_queues IS
    'The queues of the workers that the current transaction works for, which policies compare with. NULL: for none.';
CREATE POLICY worker ON run TO belfry_api USING (queue_id = ANY ((SELECT belfry_queues())::integer[]));
CREATE POLICY worker ON run_history TO belfry_api USING (queue_id = ANY ((SELECT belfry_queues())::integer[]));
CREATE POLICY worker ON permit TO belfry_api USING (queue_id = ANY ((SELECT belfry_queues())::integer[]));

-- +goose Down

DROP POLICY worker ON run;
DROP POLICY worker ON run_history;
DROP POLICY worker ON permit;
DROP FUNCTION belfry_queues;

DROP POLICY api_read ON session;
DROP POLICY api ON session;
CREATE POLICY api ON session TO belfry_api USING (namespace_id IS NULL OR namespace_id = belfry_namespace())
    WITH CHECK (namespace_id = belfry_namespace());
DROP POLICY api ON failover;
REVOKE SELECT ON failover FROM belfry_api;
REVOKE INSERT, UPDATE ON queue_rate FROM belfry_api;
REVOKE UPDATE (renewed_at, expires_at, handlers) ON session FROM belfry_api;
