-- Complete: moves runs whose attempt succeeded from the live table to history, and frees their permits. $1 to $4 name
-- the runs, $5 their attempts, $6 the sessions that must have them: a stale attempt finds no row (fenced). The attempt
-- alone is not enough, because a failover or a restore may lose a claim, and then its number is given out again. $7 is
-- how long after its run time each started, as the node that delivered it measured: runs are claimed before that time.
--
-- Rows are deleted by one scan of addresses. The join with what was found is a hash join of two small sets
-- (store.HashJoin): one scan for each address takes a quarter longer.
--
-- A run whose row another transaction updated while this statement waited for the lock is not found either, because
-- the new version of the row has an address that this statement does not see; the caller completes what is left with
-- complete_lock.sql. For workers, RETURNING is added.
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt, unnest($6::uuid[]) AS session_id,
           unnest($7::interval[]) AS late
), found AS MATERIALIZED (
    SELECT x.address, k.late
    FROM k, LATERAL (
        SELECT r.ctid AS address FROM run r
        WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
          AND r.attempt = k.attempt AND r.state <> 0 /* live */ AND r.session_id = k.session_id
        LIMIT 1 FOR UPDATE) x
), ended AS (
    DELETE FROM run WHERE ctid = ANY (ARRAY(SELECT address FROM found)) RETURNING *, ctid AS address
), freed AS (
    DELETE FROM permit WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM (SELECT 1::smallint /* queue */ AS kind, queue_id::bigint AS id, queue_permit AS number
              FROM ended WHERE queue_permit IS NOT NULL
              UNION ALL
              SELECT 2 /* concurrency key */, concurrency_key, key_permit
              FROM ended WHERE key_permit IS NOT NULL) e, LATERAL (
            SELECT p.ctid AS address FROM permit p
            WHERE p.limit_kind = e.kind AND p.limit_id = e.id AND p.number = e.number LIMIT 1) x))
)
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, session_id, queue_id, attempts, idempotency_key, trace, payload)
SELECT partition, seq, version, job_id, due_at, run_at, s.started_at,
       greatest(s.started_at, (SELECT belfry_ledger_time())), 1 /* succeeded */, attempt, origin,
       0, session_id, queue_id, attempts, idempotency_key, trace, payload
FROM ended JOIN found USING (address), LATERAL (SELECT greatest(claimed_at, run_at + late) AS started_at) s
