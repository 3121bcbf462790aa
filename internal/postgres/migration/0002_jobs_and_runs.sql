-- +goose Up

-- Primary keys of partitioned data lead with `partition`, and every hot statement names it: it decides which node
-- works on a row, and on which shard the row lives. No foreign keys on these tables: checking one locks the parent
-- row, and the locks of many children on one parent exhaust MultiXacts.

-- A lane for runs. Limits come with the pull workers.
CREATE TABLE queue (
    id           integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id uuid        NOT NULL,
    name         text        COLLATE "C" NOT NULL,
    paused       boolean     NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT queue_name_key UNIQUE (namespace_id, name)
);

-- How far a schedule is planned in a partition. All jobs of a namespace there with the same schedule and missed policy share it,
-- so that a due time costs one row however many jobs have it. next_due_at is the first occurrence that is not planned;
-- NULL: the schedule has ended.
CREATE SEQUENCE cursor_id;
CREATE TABLE cursor (
    partition    smallint    NOT NULL,
    id           bigint      NOT NULL DEFAULT nextval('cursor_id'),
    namespace_id uuid        NOT NULL,
    key          bytea       NOT NULL, -- SHA-256 of schedule and missed
    schedule     text        NOT NULL, -- canonical JSON, see schedule.Key
    missed       text        NOT NULL, -- JSON of job.Missed
    next_due_at  timestamptz,
    PRIMARY KEY (partition, id),
    CONSTRAINT cursor_key_key UNIQUE (partition, namespace_id, key)
) WITH (fillfactor = 60);
CREATE INDEX cursor_due ON cursor (partition, next_due_at);

-- Due times that no job of a cursor runs for, by reason: a year of missed seconds is one row.
CREATE TABLE cursor_skip (
    partition smallint    NOT NULL,
    cursor_id bigint      NOT NULL,
    from_due  timestamptz NOT NULL,
    to_due    timestamptz NOT NULL,
    count     bigint      NOT NULL,
    reason    text        NOT NULL,
    made_at   timestamptz NOT NULL,
    PRIMARY KEY (partition, cursor_id, from_due, reason)
);

-- Definitions. Hardly ever written: neither plan nor claim nor complete touches it, but for jobs with max_runs, the pause of failing
-- that fail, and the end of one-offs.
CREATE TABLE job (
    partition     smallint    NOT NULL,
    id            uuid        NOT NULL,
    namespace_id  uuid        NOT NULL,
    cursor_id     bigint      NOT NULL,
    queue_id      integer     NOT NULL,
    version       integer     NOT NULL,
    state         smallint    NOT NULL, -- job.State
    priority      smallint    NOT NULL,
    admit         smallint    NOT NULL, -- how claim goes about it, see below
    jitter_ms     integer     NOT NULL,
    timeout_ms    integer     NOT NULL,
    max_runs      integer     NOT NULL DEFAULT 0, -- as the user wrote it; 0: no limit
    runs_left     integer,              -- of max_runs; NULL: no limit
    plan_from     timestamptz NOT NULL, -- earlier due times are none of its, or accounted for: created, paused, resumed, rescheduled, start_at
    end_at        timestamptz,          -- no run for this and later due times
    paused_at     timestamptz,
    finished_at   timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    name          text        COLLATE "C" NOT NULL,
    note          text        NOT NULL DEFAULT '',
    target_kind   text        NOT NULL,
    target_config text        NOT NULL, -- JSON, read by the target alone
    payload       text,                 -- JSON
    schedule      text        NOT NULL, -- JSON of schedule.Spec, as the user wrote it
    policy        text        NOT NULL, -- JSON of job.Policy, defaults filled in
    labels        jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition, id),
    CONSTRAINT job_name_key UNIQUE (namespace_id, name)
);
-- What plan reads, without a look at the wide row.
CREATE INDEX job_cursor ON job (partition, cursor_id)
    INCLUDE (id, queue_id, version, priority, admit, jitter_ms, runs_left, plan_from, end_at) WHERE state = 1;
-- The few with max_runs are planned by a statement of their own, which counts.
CREATE INDEX job_cursor_limited ON job (partition, cursor_id) WHERE state = 1 AND runs_left IS NOT NULL;

CREATE TABLE job_version (
    partition  smallint    NOT NULL,
    job_id     uuid        NOT NULL,
    version    integer     NOT NULL,
    actor      text        NOT NULL,
    definition text        NOT NULL, -- JSON of job.Definition
    created_at timestamptz NOT NULL,
    PRIMARY KEY (partition, job_id, version)
);

-- Live runs only. Found by key and never by scanning for the first pending one: such a scan dies under one idle
-- snapshot. Claim changes no indexed column, so its update is HOT.
-- Statistics of a table that is empty now and full a second later are always wrong; its statements are written so
-- that only one plan is possible.
CREATE TABLE run (
    partition  smallint    NOT NULL,
    seq        smallint    NOT NULL,
    version    integer     NOT NULL, -- of the job, when the run was made
    job_id     uuid        NOT NULL,
    due_at     timestamptz NOT NULL,
    run_at     timestamptz NOT NULL,
    state      smallint    NOT NULL, -- job.RunState
    attempt    smallint    NOT NULL,
    priority   smallint    NOT NULL,
    origin     smallint    NOT NULL, -- job.Origin
    -- 0: nothing to decide when it is claimed. 1: nothing if no other run of the job is live. 2: always ask job.Admit.
    admit      smallint    NOT NULL,
    queue_id   integer     NOT NULL,
    woken      boolean     NOT NULL, -- made or moved by another than the planner, so its owner has to be told
    session_id uuid,
    claimed_at timestamptz,
    expires_at timestamptz,          -- of a running or waiting one: lost if not reported by then
    payload    text,                 -- of a trigger, in place of the job's
    attempts   jsonb,                -- those before this one, with their outcomes
    PRIMARY KEY (partition, job_id, due_at, seq)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);

-- The owner of a partition finds here what its planner did not write: triggers, retries of other nodes. Runs by schedule are not in it.
CREATE INDEX run_woken ON run (partition, run_at) WHERE woken;

-- Finished and skipped runs: insert-only, a partition for each day of ended_at. Retention drops days. No DEFAULT partition: it would
-- have to be scanned for each day that is made.
CREATE TABLE run_history (
    partition  smallint    NOT NULL,
    seq        smallint    NOT NULL,
    version    integer     NOT NULL,
    job_id     uuid        NOT NULL,
    due_at     timestamptz NOT NULL,
    run_at     timestamptz NOT NULL,
    started_at timestamptz,          -- of the last attempt; NULL: never started
    ended_at   timestamptz NOT NULL,
    ended      smallint    NOT NULL, -- job.Ended
    attempt    smallint    NOT NULL,
    origin     smallint    NOT NULL,
    status     smallint    NOT NULL, -- of the target's protocol
    session_id uuid,
    due_to     timestamptz,          -- a skipped range: from due_at to here,
    count      bigint,               -- so many occurrences
    reason     text,                 -- job.Reason
    message    text,
    attempts   jsonb
) PARTITION BY RANGE (ended_at);
CREATE INDEX run_history_job ON run_history (job_id, due_at);

-- Failed runs that wait for redrive or discard.
CREATE TABLE dead_letter (
    partition smallint    NOT NULL,
    job_id    uuid        NOT NULL,
    due_at    timestamptz NOT NULL,
    seq       smallint    NOT NULL,
    failed_at timestamptz NOT NULL,
    attempt   smallint    NOT NULL,
    reason    text        NOT NULL,
    message   text        NOT NULL,
    payload   text,
    PRIMARY KEY (partition, job_id, due_at, seq)
);

-- A live process, with an expiry in database time. The id is random per process: two nodes of one name are two sessions.
CREATE TABLE session (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    owns       boolean     NOT NULL DEFAULT true -- may be given partitions; false: a node that drains, a worker
) WITH (fillfactor = 50);

-- Who owns a partition. epoch counts the changes of owner.
CREATE TABLE partition (
    id    smallint PRIMARY KEY,
    owner uuid,
    epoch bigint   NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO partition (id) SELECT generate_series(0, 255);

-- +goose Down

DROP TABLE partition, session, dead_letter, run_history, run, job_version, job, cursor_skip, cursor, queue;
DROP SEQUENCE cursor_id;
