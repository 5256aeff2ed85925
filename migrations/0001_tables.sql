-- 0001: the tables, explained in doc/engine.md. They are private: only the functions of the later files read and write
-- them. The one exception is the library's bulk load (src/sql/load_*.sql), for the role that owns them.

-- Every client uses UTF8. A database with another encoding may contain text that cannot be sent to a client.
DO $$
DECLARE name text := split_part('pgwork.', '.', 1);
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'database "%" has the encoding "%": expected "UTF8"',
            current_database(), current_setting('server_encoding') USING ERRCODE = 'PW007',
            HINT = 'create another one: CREATE DATABASE name ENCODING ''UTF8'' LOCALE ''C'' TEMPLATE template0';
    ELSIF to_regnamespace(name) IS NULL THEN
        CREATE SCHEMA pgwork;
    ELSIF (SELECT nspowner FROM pg_namespace WHERE nspname = name)
          <> (SELECT oid FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'schema "%" already exists and belongs to another role', name
            USING ERRCODE = 'PW007', HINT = 'migrate as its owner, or choose another schema';
    END IF;
END $$;

REVOKE ALL ON SCHEMA pgwork FROM PUBLIC;

-- The clock for leases, delays and retention.
CREATE FUNCTION pgwork._now() RETURNS timestamptz LANGUAGE sql RETURN clock_timestamp();

CREATE TABLE pgwork.migration (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE VIEW pgwork.migrations AS SELECT * FROM pgwork.migration;

CREATE TABLE pgwork.setting (name text PRIMARY KEY, value text NOT NULL, about text NOT NULL);
INSERT INTO pgwork.setting VALUES
    ('implicit_queues', 'on', 'on: the first enqueue creates a queue; off: only queue_create() does'),
    ('max_queues', '10000', 'the largest number of queues'),
    ('op_retention_ms', '86400000', 'how long an operation id is remembered'),
    ('low_water_marks', 'on', 'on: claims start at low-water marks; off: at the beginning of the queue');

CREATE TABLE pgwork.queue (
    id             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    lease_ms       integer NOT NULL DEFAULT 30000      CHECK (lease_ms BETWEEN 100 AND 86400000),
    max_attempts   integer NOT NULL DEFAULT 10         CHECK (max_attempts = -1 OR max_attempts BETWEEN 1 AND 1000),
    backoff_ms     bigint NOT NULL DEFAULT 1000        CHECK (backoff_ms BETWEEN 0 AND 31536000000),
    backoff_cap_ms bigint NOT NULL DEFAULT 3600000     CHECK (backoff_cap_ms BETWEEN 0 AND 31536000000),
    retention_ms   bigint NOT NULL DEFAULT 0           CHECK (retention_ms BETWEEN 0 AND 3153600000000),
    max_bytes      integer NOT NULL DEFAULT 16777216   CHECK (max_bytes BETWEEN 1 AND 268435455),
    dead_retention_ms bigint NOT NULL DEFAULT -1 CHECK (dead_retention_ms = -1 OR dead_retention_ms > 0), -- -1: kept
    paused boolean NOT NULL DEFAULT false, draining boolean NOT NULL DEFAULT false, -- no claims; no enqueues
    expired        text NOT NULL DEFAULT 'dead'        CHECK (expired IN ('dead', 'drop')),
    notify boolean NOT NULL DEFAULT true, payload_visible boolean NOT NULL DEFAULT false, -- to viewers
    created_at     timestamptz NOT NULL DEFAULT pgwork._now()
);

-- 2^58: position * 32 + lane must fit into a bigint. CACHE 1: the low-water marks need positions in order.
CREATE SEQUENCE pgwork.position AS bigint MAXVALUE 288230376151711743 CACHE 1;

-- A row is one job, or up to a hundred jobs that were enqueued or claimed by one call (a batch row). It is ready, or
-- leased to one holder. A lease changes no indexed column, so it is a HOT update. The fillfactor leaves space for it,
-- and toast_tuple_target keeps rows small enough that two versions fit on a page.
CREATE TABLE pgwork.live_job (
    pos          bigint NOT NULL DEFAULT nextval('pgwork.position'), -- a requeued job gets a new one
    token        uuid,        -- NULL: ready. Otherwise set by the claim: pos * 32 + lane, 64 random bits
    lease_until timestamptz, created_at timestamptz NOT NULL DEFAULT pgwork._now(), queue integer NOT NULL,
    lane         smallint NOT NULL DEFAULT 1, -- 2 * priority + 1; 2 * priority while quarantined (its last holder died)
    n            integer NOT NULL DEFAULT 1,  -- jobs that are still in the row
    expires_at timestamptz, attempt integer NOT NULL DEFAULT 0,
    max_attempts integer, lease_ms integer, -- NULL: that of the queue
    id bigint, last_id bigint, -- NULL while a single job is at its first position, which is its id
    kind text NOT NULL DEFAULT '', holder text, payload jsonb, body bytea, key text, error text, tags text[],
    ready_at     timestamptz, -- when it became ready after a delay or a redrive; NULL: at created_at
    grp text, meta jsonb, gone_ids bigint[], -- jobs that have already left a leased batch row
    ids bigint[], kinds text[], payloads jsonb[], created timestamptz[] -- a batch row: an element for each job
) WITH (fillfactor = 40, toast_tuple_target = 3200,
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 800);
CREATE INDEX live_job_place ON pgwork.live_job (queue, lane, pos);
CREATE INDEX live_job_id ON pgwork.live_job (queue, id, last_id) WHERE id IS NOT NULL;
-- There is no primary key. Without this, every claim would fail once a publication covers all tables.
ALTER TABLE pgwork.live_job REPLICA IDENTITY FULL;

-- Jobs of one row are similar, so lz4 saves WAL and costs no time. (pglz would cost time.)
DO $$
BEGIN
    ALTER TABLE pgwork.live_job ALTER ids SET COMPRESSION lz4, ALTER kinds SET COMPRESSION lz4,
        ALTER payloads SET COMPRESSION lz4, ALTER created SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN -- the server was built without lz4
    ALTER TABLE pgwork.live_job ALTER ids SET STORAGE EXTERNAL, ALTER kinds SET STORAGE EXTERNAL,
        ALTER payloads SET STORAGE EXTERNAL, ALTER created SET STORAGE EXTERNAL;
END $$;

-- Splits a row into its jobs. (The planner inlines it.)
CREATE FUNCTION pgwork._jobs(j pgwork.live_job)
RETURNS TABLE (id bigint, kind text, payload jsonb, created_at timestamptz) LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT u.id, u.kind, u.payload, u.created_at
      FROM unnest(coalesce(j.ids, ARRAY[coalesce(j.id, j.pos)]), coalesce(j.kinds, ARRAY[j.kind]),
                  coalesce(j.payloads, ARRAY[j.payload]), coalesce(j.created, ARRAY[j.created_at]))
        AS u (id, kind, payload, created_at) WHERE j.gone_ids IS NULL OR u.id <> ALL (j.gone_ids)
$$;

-- The ledgers of the low-water marks (0004_marks.sql). Both are read newest first, and append-only except for
-- the deletion of old entries, so a reader finds the newest entry at once, even while vacuum is held back.
CREATE TABLE pgwork.reaper_tick (
    version    bigint PRIMARY KEY, at timestamptz NOT NULL,
    issued     bigint NOT NULL,   -- the last position drawn, read before `writers`
    writers    xid[] NOT NULL,    -- transactions that were writing to live_job at that time
    slow       xid[] NOT NULL,    -- those that were already writing at the tick before ...
    seen       bigint[] NOT NULL, -- ... and, for each, the last tick before it was slow
    next_queue integer NOT NULL,  -- the queue at which the next tick continues
    settled    boolean NOT NULL,  -- no mark could move further
    -- when the reaper last did its other tasks, and how long they took
    promoted_at timestamptz NOT NULL, promote_ms integer NOT NULL, reaped_at timestamptz NOT NULL,
    reap_ms integer NOT NULL, pruned_at timestamptz NOT NULL, prune_ms integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE pgwork.mark (
    queue integer NOT NULL, version bigint NOT NULL, -- the tick that wrote it
    lanes   smallint[] NOT NULL, -- the ranges that claims read, in order: lane, after this position ...
    starts  bigint[] NOT NULL, stops   bigint[] NOT NULL,   -- ... and up to this one
    front   integer NOT NULL,    -- the number of ranges before the first range of quarantined jobs
    marks   bigint[] NOT NULL,   -- by lane: the low-water mark, where a range without an end begins
    floors  bigint[] NOT NULL,   -- by lane: there are no rows up to here
    froms   bigint[] NOT NULL,   -- for `slow`: the marks and floors that were valid from these ticks on ...
    lows    bigint[] NOT NULL,   -- ... forty numbers each
    back    bigint[] NOT NULL,   -- how far the search for late commits has come, from `lows` to the marks
    PRIMARY KEY (queue, version)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE pgwork.delayed_job (
    run_at timestamptz NOT NULL, id bigint NOT NULL DEFAULT nextval('pgwork.position'),
    created_at timestamptz NOT NULL DEFAULT pgwork._now(), queue integer NOT NULL, priority smallint NOT NULL,
    attempt integer NOT NULL DEFAULT 0, max_attempts integer, lease_ms integer, kind text NOT NULL DEFAULT '',
    key text, error text, tags text[], payload jsonb, body bytea, grp text, expires_at timestamptz, meta jsonb,
    PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX delayed_job_due ON pgwork.delayed_job (queue, run_at, id) WHERE run_at < 'infinity';

-- A dead letter has the time of its death instead of a due time, and the last holder.
CREATE TABLE pgwork.dead_job (LIKE pgwork.delayed_job, holder text, PRIMARY KEY (queue, id));
ALTER TABLE pgwork.dead_job RENAME run_at TO died_at;
ALTER TABLE pgwork.delayed_job ADD gate text, ADD place bigint; -- of a gated job, see 0015
ALTER TABLE pgwork.dead_job ALTER died_at SET DEFAULT pgwork._now();
CREATE INDEX dead_job_died ON pgwork.dead_job (queue, died_at) WHERE died_at < 'infinity';

CREATE TABLE pgwork.done_job (
    id bigint NOT NULL, created_at timestamptz NOT NULL, finished_at timestamptz NOT NULL DEFAULT pgwork._now(),
    queue integer NOT NULL, priority smallint NOT NULL, attempt integer NOT NULL,
    cancelled boolean NOT NULL DEFAULT false, kind text NOT NULL, holder text, key text, tags text[],
    payload jsonb, output jsonb, PRIMARY KEY (queue, id)
);
CREATE INDEX done_job_finished ON pgwork.done_job (queue, finished_at) WHERE finished_at < 'infinity';
CREATE INDEX done_job_cancelled ON pgwork.done_job (queue, id) WHERE cancelled;

CREATE TABLE pgwork.job_history (queue integer, id bigint, progress jsonb, PRIMARY KEY (queue, id)); -- see 0017

-- Cancel requests for leased jobs. Not a column of live_job: a cancel in an open transaction would lock the job.
CREATE TABLE pgwork.cancel_request (queue integer NOT NULL, id bigint NOT NULL, PRIMARY KEY (queue, id));

CREATE TABLE pgwork.unique_key (
    queue integer NOT NULL, key text NOT NULL, id bigint NOT NULL,
    free_after  timestamptz,                    -- scope period; NULL: the end of the job frees it
    while_ready boolean NOT NULL DEFAULT false, -- scope ready: also free when the job does not wait any more
    PRIMARY KEY (queue, key)
);
CREATE INDEX unique_key_free ON pgwork.unique_key (free_after) WHERE free_after IS NOT NULL;

CREATE TABLE pgwork.operation (
    queue integer NOT NULL, op uuid NOT NULL, ids bigint[] NOT NULL, at timestamptz NOT NULL DEFAULT pgwork._now(),
    PRIMARY KEY (queue, op)
);
CREATE INDEX operation_at ON pgwork.operation (at);

CREATE TABLE pgwork.stuck_job (
    queue integer NOT NULL, -- 0, with id 1: prune() itself
    id bigint NOT NULL, error text NOT NULL, since timestamptz NOT NULL DEFAULT pgwork._now(),
    tries integer NOT NULL DEFAULT 1, again_at timestamptz NOT NULL, told boolean NOT NULL DEFAULT false,
    lane smallint, -- the lane of a ready job that was set aside
    PRIMARY KEY (queue, id)
);

COMMENT ON SCHEMA pgwork IS 'pgwork: a work queue. Use the functions; the tables are private.';
COMMENT ON VIEW pgwork.migrations IS 'The migrations that were applied to this schema, and when.';
