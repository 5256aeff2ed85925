-- 0001: what is stored. Private: nobody but the functions of the later files reads or writes these, and the library for who owns them (load_*.sql
-- and job_short_*.sql of src/sql).
--
-- A job that is ready is one row of live_job. It lies at (queue, lane, pos), the only index that a claim
-- uses. Every placement takes a fresh pos and is claimed at most once; a job that comes back (released,
-- reaped, due again) is a new row.
--
--   lane   2 * priority + 1, or 2 * priority for jobs handed back: older, so in front
--   id     the pos of the first placement; NULL while the job still lies there
--   token  its claim's: pos and lane, then 64 random bits; NULL: ready
--
-- A claim of up to 32 jobs marks their rows: no indexed column changes, so these are HOT updates (the fillfactor: a
-- leased row is longer than a ready one). More jobs claimed together go into a pack instead: their
-- rows are deleted, and one row of pack holds them and their lease, under a token for all. To finish them all
-- is to delete that row. Who finishes some of them only writes down in pack_out which, and leaves the pack's
-- row alone: transactions that finish jobs of one pack do not wait for each other.
-- A claim that meets a job with something of its own (retried, keyed, large: see _traits()) makes no pack.
--
-- Where claims are large, plain jobs that are enqueued together share a row from the beginning: a bundle, at the place of its first
-- job. A claim that wants them all moves it into a pack as it is. One that wants fewer opens it: its jobs become rows that are handed back.

-- Every client speaks UTF8. In a database of another encoding a text can lie that no client can be sent, and each claim would meet it.
DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'database % is encoded in %: pgwork needs UTF8', quote_ident(current_database()), current_setting('server_encoding')
            USING ERRCODE = 'PW007', HINT = 'make another one: CREATE DATABASE name ENCODING ''UTF8'' LOCALE ''C'' TEMPLATE template0';
    END IF;
END $$;

DO $$
DECLARE
    name text := split_part('pgwork.', '.', 1);
BEGIN
    IF to_regnamespace(name) IS NULL THEN
        CREATE SCHEMA pgwork;
    ELSIF (SELECT nspowner FROM pg_namespace WHERE nspname = name)
          <> (SELECT oid FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'schema % is there and belongs to somebody else', name
            USING ERRCODE = 'PW007', HINT = 'migrate as its owner, or choose another schema';
    END IF;
END $$;

REVOKE ALL ON SCHEMA pgwork FROM PUBLIC;

CREATE TABLE pgwork.migration (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE VIEW pgwork.migrations AS SELECT * FROM pgwork.migration;

CREATE TABLE pgwork.setting (
    name  text PRIMARY KEY,
    value text NOT NULL,
    about text NOT NULL
);
INSERT INTO pgwork.setting VALUES
    ('implicit_queues', 'on', 'on: a queue comes into being at its first enqueue; off: queue_create only'),
    ('op_retention_ms', '86400000', 'how long an operation id is remembered'),
    ('compact_mb', '256', 'how large a table that is nearly all remains may grow, in MB; 0: as large as it likes');

CREATE TABLE pgwork.queue (
    id             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text NOT NULL UNIQUE
                   CHECK (octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    lease_ms       integer NOT NULL DEFAULT 30000      CHECK (lease_ms BETWEEN 100 AND 86400000),
    max_attempts   smallint NOT NULL DEFAULT 10        CHECK (max_attempts BETWEEN 1 AND 1000),
    backoff_ms     bigint NOT NULL DEFAULT 1000        CHECK (backoff_ms BETWEEN 0 AND 31536000000),
    backoff_cap_ms bigint NOT NULL DEFAULT 3600000     CHECK (backoff_cap_ms BETWEEN 0 AND 31536000000),
    retention_ms   bigint NOT NULL DEFAULT 0           CHECK (retention_ms BETWEEN 0 AND 3153600000000),
    max_bytes      integer NOT NULL DEFAULT 16777216   CHECK (max_bytes BETWEEN 1 AND 268435455),
    paused         boolean NOT NULL DEFAULT false, -- no claims
    draining       boolean NOT NULL DEFAULT false, -- no enqueues
    notify         boolean NOT NULL DEFAULT true,  -- wake sleeping workers
    priorities     integer NOT NULL DEFAULT 1,     -- bit p: priority p has been used; spares claims empty lanes
    bulk           boolean NOT NULL DEFAULT true,  -- make bundles, where claims are large
    large_claims   boolean NOT NULL DEFAULT false, -- they are, as claims have taught ...
    learned_at     timestamptz NOT NULL DEFAULT '-infinity', -- ... then; nobody changes that within the next minute
    suspects       integer NOT NULL DEFAULT 0,     -- bit p: jobs of priority p wait whose holder died; the reaper keeps it true to the facts
    bundles        boolean NOT NULL DEFAULT false, -- bundles may wait; that is kept true likewise
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- 2^58: number = pos * 32 + lane has to fit into a bigint.
CREATE SEQUENCE pgwork.place AS bigint MAXVALUE 288230376151711743;

CREATE TABLE pgwork.live_job (
    pos          bigint NOT NULL DEFAULT nextval('pgwork.place'),
    token        uuid,
    lease_until  timestamptz,              -- ready: since when, where that is not created_at: it was delayed, or dead
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue        integer NOT NULL,
    lane         smallint NOT NULL DEFAULT 1,
    attempt      smallint NOT NULL DEFAULT 0,
    flags        smallint NOT NULL DEFAULT 0, -- 1 cancel asked, 2 its holder died: claim it alone, 4 has a unique key to free at its end, 8 a bundle
    max_attempts smallint,                    -- NULL: as the queue says
    lease_ms     integer,                     -- NULL: as the claim, else the queue says
    id           bigint,
    kind         text NOT NULL DEFAULT '',
    holder       text,
    key          text,
    error        text,
    tags         text[],
    payload      jsonb,
    body         bytea,
    jobs         smallint,                    -- a bundle: how many ...
    last_id      bigint,
    all_ids      bigint[],                    -- ... and what rows of their own would hold
    all_kinds    text[],
    all_payloads jsonb[]
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_analyze_scale_factor = 0.2,
        -- Brisk, but not as fast as it can: while an old snapshot holds it back it goes over all that was ever done, in vain, again and again.
        autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 800);
CREATE INDEX live_job_place ON pgwork.live_job (queue, lane, pos);
-- It has no primary key: without this each claim would fail as soon as somebody publishes all tables.
ALTER TABLE pgwork.live_job REPLICA IDENTITY FULL;
CREATE INDEX live_job_moved ON pgwork.live_job (queue, id) WHERE id IS NOT NULL;
CREATE INDEX live_job_bundle ON pgwork.live_job (queue, lane, pos, last_id) WHERE jobs IS NOT NULL; -- last_id: an id is looked for without a visit to each

CREATE TABLE pgwork.pack (
    number      bigint NOT NULL,      -- a place, drawn by the claim: higher than those of its jobs
    token       uuid NOT NULL,        -- number and 31 instead of a lane, then 64 random bits
    lease_until timestamptz NOT NULL, -- the first end of a lease in here
    queue       integer NOT NULL,
    first_id    bigint NOT NULL,      -- the range of ids
    last_id     bigint NOT NULL,
    holder      text NOT NULL,
    ends        timestamptz[],        -- of each lease; NULL: all at lease_until
    cancelled   bigint[],             -- whose cancel is asked
    ids         bigint[] NOT NULL,    -- and what else the rows held, in their order
    lanes       smallint[] NOT NULL,
    created     timestamptz[] NOT NULL,
    kinds       text[] NOT NULL,
    payloads    jsonb[] NOT NULL,
    bodies      bytea[],              -- NULL: none has one
    tags        text[],               -- each an array literal; NULL: none has one
    PRIMARY KEY (queue, number)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.2,
        autovacuum_vacuum_cost_delay = 2, autovacuum_vacuum_cost_limit = 800);
-- Jobs are much alike: lz4 saves a third of a claim's WAL, and no less time than it takes. The other method takes more.
DO $$
BEGIN
    ALTER TABLE pgwork.live_job ALTER all_ids SET COMPRESSION lz4, ALTER all_kinds SET COMPRESSION lz4, ALTER all_payloads SET COMPRESSION lz4;
    ALTER TABLE pgwork.pack ALTER ids SET COMPRESSION lz4, ALTER lanes SET COMPRESSION lz4, ALTER created SET COMPRESSION lz4,
        ALTER kinds SET COMPRESSION lz4, ALTER payloads SET COMPRESSION lz4, ALTER bodies SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN -- a server that was built without it
    ALTER TABLE pgwork.live_job ALTER all_ids SET STORAGE EXTERNAL, ALTER all_kinds SET STORAGE EXTERNAL, ALTER all_payloads SET STORAGE EXTERNAL;
    ALTER TABLE pgwork.pack ALTER ids SET STORAGE EXTERNAL, ALTER lanes SET STORAGE EXTERNAL, ALTER created SET STORAGE EXTERNAL,
        ALTER kinds SET STORAGE EXTERNAL, ALTER payloads SET STORAGE EXTERNAL, ALTER bodies SET STORAGE EXTERNAL;
END $$;

CREATE TABLE pgwork.pack_out (
    queue  integer NOT NULL,
    number bigint NOT NULL,
    id     bigint NOT NULL,
    PRIMARY KEY (queue, number, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- What a look at the ready jobs of a queue has found, for all that claim of it (0004_marks.sql). Nothing that is worth a wait for the disk.
-- One row for each queue, renewed some times a second. As long as vacuum is held back each reader walks over what was renewed, hence a
-- new row for every half minute: the last one is found first.
CREATE UNLOGGED TABLE pgwork.survey (
    queue   integer NOT NULL,
    period  bigint NOT NULL,   -- at / 30 s
    at      bigint NOT NULL,   -- ms
    pause   bigint NOT NULL,   -- ms until the next one, at least
    all_at  bigint NOT NULL,   -- since then all below the floors is on the list of what is to be swept, or was swept
    all_due bigint NOT NULL,
    used    integer NOT NULL,  -- bit p: jobs of priority p were there
    late    integer,           -- so many stragglers lay together, far below the floors
    reached bigint NOT NULL,   -- pgwork.mark at that time
    back    boolean NOT NULL,  -- something ready, that nobody was just claiming, lay below what had been reached at the survey before
    issued  bigint NOT NULL,   -- the last place drawn
    before  bigint NOT NULL,   -- and at the survey before
    ends    xid8 NOT NULL,     -- transactions from here on began later: they draw places above `issued`
    through boolean NOT NULL,  -- the heads were reached; else there are many dead entries before them, and the next survey goes on
    heads   bigint[] NOT NULL, -- by lane: nothing ready was seen up to there
    floors  bigint[] NOT NULL, -- by lane: nothing ready is up to there, and nothing will be, unless from `slow` transactions
    slow    xid8[] NOT NULL,   -- transactions that ran at both
    lows    bigint[] NOT NULL, -- what each of these may have enqueued, or has claimed and was passed over, lies above
    froms   bigint[] NOT NULL, -- below the floors: what is to be swept, the newest first, lies above ...
    tos     bigint[] NOT NULL, -- ... and up to there
    strays  bigint[],          -- by lane: the first straggler that was found there; NULL: none
    PRIMARY KEY (queue, period)
) WITH (fillfactor = 40);

-- How far claims have come, as the last session that looked has found (0004_marks.sql); a hint, too.
CREATE UNLOGGED SEQUENCE pgwork.mark;

-- What the last claim that knew better has learnt of its queue, for _learn(): queue * 2 + 1 where claims are large.
CREATE UNLOGGED SEQUENCE pgwork.lesson;

CREATE TABLE pgwork.delayed_job (
    run_at       timestamptz NOT NULL,
    id           bigint NOT NULL DEFAULT nextval('pgwork.place'),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue        integer NOT NULL,
    priority     smallint NOT NULL,
    attempt      smallint NOT NULL DEFAULT 0,
    flags        smallint NOT NULL DEFAULT 0,
    max_attempts smallint,
    lease_ms     integer,
    kind         text NOT NULL DEFAULT '',
    key          text,
    error        text,
    tags         text[],
    payload      jsonb,
    body         bytea,
    PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX delayed_job_due ON pgwork.delayed_job (queue, run_at, id);

CREATE TABLE pgwork.dead_job (
    id           bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    died_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue        integer NOT NULL,
    priority     smallint NOT NULL,
    attempt      smallint NOT NULL,
    max_attempts smallint,
    lease_ms     integer,
    kind         text NOT NULL,
    holder       text,
    key          text,
    error        text,
    tags         text[],
    payload      jsonb,
    body         bytea,
    PRIMARY KEY (queue, id)
);
CREATE INDEX dead_job_died ON pgwork.dead_job (queue, died_at);

CREATE TABLE pgwork.done_job (
    id           bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue        integer NOT NULL,
    priority     smallint NOT NULL,
    attempt      smallint NOT NULL,
    cancelled    boolean NOT NULL DEFAULT false,
    kind         text NOT NULL,
    holder       text,
    key          text,
    tags         text[],
    payload      jsonb,
    output       jsonb,
    PRIMARY KEY (queue, id)
);
CREATE INDEX done_job_finished ON pgwork.done_job (queue, finished_at);

CREATE TABLE pgwork.unique_key (
    queue      integer NOT NULL,
    key        text NOT NULL,
    id         bigint NOT NULL,
    free_after timestamptz, -- scope period; NULL: freed by the job's end
    while_ready boolean NOT NULL DEFAULT false, -- scope ready: free, too, while the job does not wait
    PRIMARY KEY (queue, key)
);
CREATE INDEX unique_key_free ON pgwork.unique_key (queue, free_after) WHERE free_after IS NOT NULL;

CREATE TABLE pgwork.operation (
    queue integer NOT NULL,
    op    uuid NOT NULL,
    ids   bigint[] NOT NULL,
    at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, op)
);
CREATE INDEX operation_at ON pgwork.operation (queue, at);

CREATE TABLE pgwork.beat (
    role text NOT NULL,
    name text NOT NULL,
    pid  integer NOT NULL,
    at   timestamptz NOT NULL,
    PRIMARY KEY (role, name)
);

CREATE TABLE pgwork.stuck_job (
    queue    integer NOT NULL,
    id       bigint NOT NULL,
    error    text NOT NULL,
    since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries    integer NOT NULL DEFAULT 1,
    again_at timestamptz NOT NULL,
    told     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (queue, id)
);

COMMENT ON SCHEMA pgwork IS 'pgwork: a work queue. Use the functions; the tables are private and change without notice.';
COMMENT ON VIEW pgwork.migrations IS 'What was applied to this schema, and when.';
COMMENT ON TABLE pgwork.live_job IS 'Jobs that are ready (token IS NULL) or leased one by one.';
COMMENT ON TABLE pgwork.pack IS 'Jobs that were claimed together, and their lease.';
COMMENT ON TABLE pgwork.pack_out IS 'Jobs that have left their pack already: finished, failed, given back.';
COMMENT ON TABLE pgwork.survey IS 'Where claims begin to look, by queue; a hint.';
COMMENT ON SEQUENCE pgwork.mark IS 'How far claims have come, of the queue that was last claimed from; a hint.';
COMMENT ON SEQUENCE pgwork.lesson IS 'What claims have learnt of a queue, until a reaper writes it down.';
COMMENT ON TABLE pgwork.delayed_job IS 'Jobs that wait for their time: delayed, snoozed, or to be retried.';
COMMENT ON TABLE pgwork.dead_job IS 'Dead letters: attempts used up, or told so.';
COMMENT ON TABLE pgwork.stuck_job IS 'Jobs of expired leases that a reaper could not take back, and why.';
COMMENT ON TABLE pgwork.done_job IS 'Finished and cancelled jobs of queues with a retention.';
