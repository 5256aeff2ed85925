-- 0013: schedules. Any number of schedulers may run on any number of machines, without a leader: a tick is decided
-- under the lock of its schedule's row, in the transaction that enqueues the job or gives the tick to a node.
--
--   slot     the instant at which a tick is due, a whole second; for a requested tick the microsecond of the request;
--            each (schedule, slot) is decided once
--   base     all ticks up to here are decided: the next tick is the first one after it
--   next_*   computed from base: planned once, and again when due and once an hour, because rules of zones change

-- The numbers of tokens, one sequence for all schedules: a name that is dropped and created again,
-- or given to another schedule, continues above its old numbers.
CREATE SEQUENCE pgwork.schedule_fence AS bigint;

CREATE TABLE pgwork.schedule (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]'),
    expression   text NOT NULL,
    zone         text NOT NULL,
    anchor       timestamptz NOT NULL,               -- the phase of @every
    misfire      text NOT NULL DEFAULT 'once'        CHECK (misfire IN ('skip', 'once', 'all')),
    misfire_max  integer NOT NULL DEFAULT 100        CHECK (misfire_max BETWEEN 1 AND 1000),
    grace_ms     bigint NOT NULL DEFAULT 60000       CHECK (grace_ms BETWEEN 0 AND 86400000),
    jitter_ms    bigint NOT NULL DEFAULT 0           CHECK (jitter_ms BETWEEN 0 AND 3600000),
    timeout_ms   bigint NOT NULL DEFAULT 300000      CHECK (timeout_ms BETWEEN 100 AND 604800000),
    -- each tick is a job in this queue; NULL: nodes claim the ticks
    queue        text,
    kind         text NOT NULL DEFAULT '',
    payload      jsonb,
    body         bytea,
    priority     smallint NOT NULL DEFAULT 0,
    max_attempts smallint,
    lease_ms     integer,
    tags         text[],
    key          text,
    ttl_ms       bigint,                             -- of the job
    grp          text,                               -- of the job: with limit 1, ticks run one after the other
    -- the next tick
    paused       boolean NOT NULL DEFAULT false,
    base         timestamptz NOT NULL,
    next_slot    timestamptz,                        -- NULL: it cannot be planned, see error
    next_at      timestamptz NOT NULL DEFAULT '-infinity', -- the slot and its jitter; after an error: when to try again
    planned_at   timestamptz NOT NULL DEFAULT '-infinity',
    asked        timestamptz,                        -- when a tick was requested; the next node that claims gets it
    last_slot    timestamptz,
    last_at      timestamptz,
    error        text,                               -- why it does not run, such as a missing zone or a paused queue,
                                                     -- or why a tick was given up; NULL after the next good tick
    error_at     timestamptz,
    -- the tick that is held
    slot         timestamptz,
    token        uuid UNIQUE,
    holder       text,
    since        timestamptz,
    until        timestamptz,
    attempt      integer NOT NULL DEFAULT 0,
    fence        bigint NOT NULL DEFAULT 0,          -- the number of the last token
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
CREATE INDEX schedule_next ON pgwork.schedule (next_at) WHERE NOT paused AND queue IS NOT NULL;
CREATE INDEX schedule_planned ON pgwork.schedule (planned_at) WHERE NOT paused;
CREATE INDEX schedule_held ON pgwork.schedule (next_at) WHERE queue IS NULL;

-- Decided ticks, the newest 100 of each schedule.
CREATE TABLE pgwork.tick (
    schedule    bigint NOT NULL REFERENCES pgwork.schedule ON DELETE CASCADE,
    slot        timestamptz NOT NULL,
    at          timestamptz NOT NULL, -- when it was decided
    job         bigint,               -- the job's id; NULL: held by a node
    attempt     integer NOT NULL DEFAULT 0,
    holder      text,
    finished_at timestamptz,
    error       text,
    PRIMARY KEY (schedule, slot)
);

CREATE VIEW pgwork.schedules AS
SELECT s.id, s.name, s.expression, s.zone, s.anchor, s.misfire, s.misfire_max, s.grace_ms, s.jitter_ms, s.timeout_ms, s.queue, s.kind,
       CASE WHEN v.shown THEN s.payload END AS payload, CASE WHEN v.shown THEN s.body END AS body, s.priority, s.max_attempts, s.lease_ms, s.tags,
       s.key, s.ttl_ms, s.grp, s.paused, s.base, s.next_slot, s.next_at, s.planned_at, s.asked, s.last_slot, s.last_at, s.error, s.error_at, s.slot,
       CASE WHEN a.all_payloads THEN s.token END AS token, s.holder, s.since, s.until, s.attempt, s.fence, s.created_at
  FROM pgwork.schedule s CROSS JOIN (SELECT pgwork.sees_payloads() AS all_payloads OFFSET 0) a
  LEFT JOIN pgwork.queue q ON q.name = s.queue
 CROSS JOIN LATERAL (SELECT a.all_payloads OR coalesce(q.payload_visible, false)) v (shown);
CREATE VIEW pgwork.ticks AS SELECT * FROM pgwork.tick;

COMMENT ON TABLE pgwork.schedule IS 'Schedules: their settings, their next time, and the holder of their tick. Written by the functions only.';
COMMENT ON TABLE pgwork.tick IS 'The newest ticks of each schedule.';

CREATE FUNCTION pgwork._schedule(name text) RETURNS pgwork.schedule
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule;
BEGIN
    SELECT * INTO s FROM pgwork.schedule t WHERE t.name = _schedule.name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule "%"', coalesce(left(name, 80), 'NULL')
            USING ERRCODE = 'PW003', HINT = 'pgwork.cron_create() creates one; names are case-sensitive';
    END IF;
    RETURN s;
END $$;

CREATE FUNCTION pgwork._check_schedule_name(argument text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]', argument, name,
                                  '1 to 200 bytes without control characters');
END $$;

-- How much later than its slot a tick comes. Every call for a tick returns the same.
CREATE FUNCTION pgwork._cron_jitter(s pgwork.schedule, slot timestamptz) RETURNS interval
LANGUAGE sql STABLE
RETURN CASE WHEN s.jitter_ms > 0
    THEN (hashtextextended(s.id || ':' || extract(epoch FROM slot)::bigint, 0) & 9223372036854775807) % (s.jitter_ms + 1) * interval '1 ms'
    ELSE interval '0' END;

-- Computes next_slot and next_at from base. Clears errors about planning and enqueueing, but not
-- the error of a tick that a node gave up.
CREATE FUNCTION pgwork._cron_plan(INOUT s pgwork.schedule, e pgwork._cron, at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF s.next_slot IS NULL OR s.queue IS NOT NULL THEN
        s.error := NULL;
        s.error_at := NULL;
    END IF;
    s.next_slot := pgwork._cron_after(e, s.zone, s.base, s.anchor);
    s.next_at := s.next_slot + pgwork._cron_jitter(s, s.next_slot);
    s.planned_at := at;
END $$;

-- The last slot after `bound` and before `before`. NULL: none. Steps back in doubling strides, then bisects.
CREATE FUNCTION pgwork._cron_before(e pgwork._cron, zone text, anchor timestamptz, before timestamptz, bound timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stride interval := '1 s';
    slot timestamptz;
    behind timestamptz := before; -- no slot lies between here and before
    here timestamptz;
    after timestamptz;
BEGIN
    LOOP
        here := greatest(behind - stride, bound);
        slot := pgwork._cron_after(e, zone, here, anchor);
        EXIT WHEN slot < before;
        IF here <= bound THEN
            RETURN NULL;
        END IF;
        behind := here;
        stride := stride * 2;
    END LOOP;
    LOOP
        after := pgwork._cron_after(e, zone, slot, anchor);
        EXIT WHEN after >= before;
        slot := after;
        here := slot + (behind - slot) / 2;
        after := pgwork._cron_after(e, zone, here, anchor);
        IF after < before THEN
            slot := after;
        ELSE
            behind := here;
        END IF;
    END LOOP;
    RETURN slot;
END $$;

-- The due tick at `at` by the misfire policy: next_slot and next_at of the tick to run. next_at > at: none is due.
CREATE FUNCTION pgwork._cron_due(INOUT s pgwork.schedule, e pgwork._cron, at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    grace CONSTANT interval := s.grace_ms * interval '1 ms';
    most CONSTANT integer := CASE s.misfire WHEN 'all' THEN s.misfire_max ELSE 1 END;
    slot timestamptz;
BEGIN
    s := pgwork._cron_plan(s, e, at);
    IF s.next_at >= at - grace THEN
        RETURN; -- on time, or not due
    ELSIF s.misfire = 'skip' THEN
        s.base := greatest(s.base, at - grace - (s.jitter_ms + 1000) * interval '1 ms');
        LOOP
            s := pgwork._cron_plan(s, e, at);
            EXIT WHEN s.next_at >= at - grace;
            s.base := s.next_slot;
        END LOOP;
        RETURN;
    END IF;
    s.next_at := at;
    -- A step forward costs a tenth of a step back, and this is called for each tick that a node catches up.
    slot := s.next_slot;
    FOR i IN 1 .. most LOOP
        slot := pgwork._cron_after(e, s.zone, slot, s.anchor);
        IF slot + pgwork._cron_jitter(s, slot) > at THEN
            RETURN; -- not more than the policy allows
        END IF;
    END LOOP;
    slot := pgwork._cron_before(e, s.zone, s.anchor, at + interval '1 us', s.next_slot);
    WHILE slot + pgwork._cron_jitter(s, slot) > at LOOP
        slot := pgwork._cron_before(e, s.zone, s.anchor, slot, s.next_slot);
    END LOOP;
    FOR i IN 2 .. most LOOP
        slot := pgwork._cron_before(e, s.zone, s.anchor, slot, s.next_slot);
    END LOOP;
    s.next_slot := slot;
END $$;

-- Plans from `at` on. Ticks recorded for later times came from a clock that was ahead, and are
-- planned again, unless a node holds one.
CREATE FUNCTION pgwork._cron_afresh(INOUT s pgwork.schedule, at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pgwork.tick t WHERE t.schedule = s.id AND t.slot > _cron_afresh.at AND t.slot IS DISTINCT FROM s.slot;
    s.base := at;
END $$;

CREATE FUNCTION pgwork.cron_create(name text, expression text, zone text DEFAULT 'UTC', queue text DEFAULT NULL,
    payload jsonb DEFAULT NULL, kind text DEFAULT '', body bytea DEFAULT NULL, priority integer DEFAULT 0,
    max_attempts integer DEFAULT NULL, lease_ms bigint DEFAULT NULL, tags text[] DEFAULT NULL, key text DEFAULT NULL,
    misfire text DEFAULT 'once', misfire_max integer DEFAULT 100, grace_ms bigint DEFAULT 60000, jitter_ms bigint DEFAULT 0,
    timeout_ms bigint DEFAULT 300000, ttl_ms bigint DEFAULT NULL, grp text DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    e pgwork._cron := pgwork._cron_parse(expression);
    s pgwork.schedule;
    at timestamptz;
    zone_is CONSTANT text := pgwork._check_zone(zone);
BEGIN
    PERFORM pgwork._check_schedule_name('name', name);
    IF queue IS NOT NULL THEN
        PERFORM pgwork._check_queue_name(queue);
    END IF;
    PERFORM pgwork._check_new(NULL, (NULL, NULL, kind, NULL, priority, NULL, max_attempts, lease_ms, tags, key,
                                     grp, NULL, NULL), NULL, NULL);
    PERFORM pgwork._refuse_unless(grp IS NULL OR queue IS NOT NULL, 'grp', grp,
                                  'NULL in a schedule without a queue: a node holds one tick at a time');
    PERFORM pgwork._refuse_unless(coalesce(cardinality(tags), 0) <= 30, 'tags', cardinality(tags) || ' tags', 'at most 30: each tick adds two');
    PERFORM pgwork._refuse_unless(misfire IN ('skip', 'once', 'all'), 'misfire', misfire, 'skip, once or all');
    PERFORM pgwork._refuse_unless(misfire_max BETWEEN 1 AND 1000, 'misfire_max', misfire_max::text, '1..1000');
    PERFORM pgwork._refuse_unless(grace_ms BETWEEN 0 AND 86400000, 'grace_ms', grace_ms::text, '0..86400000 (a day)');
    PERFORM pgwork._refuse_unless(misfire <> 'skip' OR grace_ms >= 1000, 'grace_ms', grace_ms::text,
                                  '1000..86400000 with misfire skip: every tick is found a little late');
    PERFORM pgwork._refuse_unless(jitter_ms BETWEEN 0 AND 3600000, 'jitter_ms', jitter_ms::text, '0..3600000 (an hour)');
    PERFORM pgwork._refuse_unless(timeout_ms BETWEEN 100 AND 604800000, 'timeout_ms', timeout_ms::text, '100..604800000 (a week)');
    PERFORM pgwork._check_ttl(ttl_ms);
    LOOP
        INSERT INTO pgwork.schedule AS t (name, expression, zone, anchor, base)
        VALUES (name, expression, zone_is, date_trunc('second', clock_timestamp()), clock_timestamp())
        ON CONFLICT ON CONSTRAINT schedule_name_key DO NOTHING;
        SELECT * INTO s FROM pgwork.schedule t WHERE t.name = cron_create.name FOR UPDATE;
        EXIT WHEN FOUND; -- otherwise it was dropped or renamed just now
    END LOOP;
    at := clock_timestamp(); -- it may have waited
    IF s.expression <> expression OR s.zone <> zone_is THEN
        s := pgwork._cron_afresh(s, at);
        s.anchor := date_trunc('second', at);
    END IF;
    s.expression := expression;
    s.zone := zone_is;
    s.jitter_ms := jitter_ms;
    s := pgwork._cron_plan(s, e, at);
    IF queue IS NOT NULL THEN -- a schedule that had no queue: a node may hold a tick, and one may be requested
        UPDATE pgwork.tick t SET finished_at = at, error = 'given up: the schedule has a queue now' WHERE t.schedule = s.id AND t.slot = s.slot;
        UPDATE pgwork.schedule t SET slot = NULL, token = NULL, holder = NULL, since = NULL, until = NULL, attempt = 0, asked = NULL
         WHERE t.id = s.id AND t.queue IS NULL;
    END IF;
    UPDATE pgwork.schedule t
       SET expression = s.expression, zone = s.zone, anchor = s.anchor, base = s.base, next_slot = s.next_slot, next_at = s.next_at,
           planned_at = s.planned_at, misfire = cron_create.misfire, misfire_max = cron_create.misfire_max, grace_ms = cron_create.grace_ms,
           jitter_ms = cron_create.jitter_ms, timeout_ms = cron_create.timeout_ms, queue = cron_create.queue, kind = coalesce(cron_create.kind, ''),
           payload = cron_create.payload, body = cron_create.body, priority = coalesce(cron_create.priority, 0),
           max_attempts = cron_create.max_attempts, lease_ms = cron_create.lease_ms, tags = cron_create.tags, key = cron_create.key, ttl_ms = cron_create.ttl_ms,
           grp = cron_create.grp,
           error = CASE WHEN cron_create.queue IS NULL THEN s.error END, error_at = CASE WHEN cron_create.queue IS NULL THEN s.error_at END
     WHERE t.id = s.id;
    RETURN CASE WHEN NOT s.paused THEN s.next_slot END;
END $$;

CREATE FUNCTION pgwork.cron_pause(name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule := pgwork._schedule(name);
BEGIN
    UPDATE pgwork.schedule t SET paused = true WHERE t.id = s.id AND NOT t.paused;
END $$;

CREATE FUNCTION pgwork.cron_resume(name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule := pgwork._schedule(name);
BEGIN
    IF s.paused THEN
        s := pgwork._cron_afresh(s, clock_timestamp()); -- ticks that were due during the pause are dropped
        s := pgwork._cron_plan(s, pgwork._cron_parse(s.expression), s.base);
        UPDATE pgwork.schedule t SET paused = false, base = s.base, next_slot = s.next_slot, next_at = s.next_at, planned_at = s.planned_at,
                                     error = s.error, error_at = s.error_at
         WHERE t.id = s.id;
    END IF;
END $$;

CREATE FUNCTION pgwork.cron_rename(name text, new_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule := pgwork._schedule(name);
BEGIN
    PERFORM pgwork._check_schedule_name('new_name', new_name);
    UPDATE pgwork.schedule t SET name = new_name WHERE t.id = s.id;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'schedule "%" already exists', new_name USING ERRCODE = 'PW005', HINT = 'choose another name, or drop that schedule';
END $$;

CREATE FUNCTION pgwork.cron_drop(name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule := pgwork._schedule(name);
BEGIN
    DELETE FROM pgwork.tick t WHERE t.schedule = s.id; -- no cascade in a session with session_replication_role = replica
    DELETE FROM pgwork.schedule t WHERE t.id = s.id;
END $$;

-- ---- ticks ---------------------------------------------------------------------------------------------------

-- Inserts the tick's row. False: this slot was decided before, for example after the clock was set back.
CREATE FUNCTION pgwork._cron_decide(s pgwork.schedule, slot timestamptz, at timestamptz) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO pgwork.tick (schedule, slot, at) VALUES (s.id, _cron_decide.slot, _cron_decide.at) ON CONFLICT ON CONSTRAINT tick_pkey DO NOTHING;
    RETURN FOUND;
END $$;

CREATE FUNCTION pgwork._cron_trim(schedule bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM pgwork.tick t
     WHERE t.schedule = $1 AND t.slot <= (SELECT o.slot FROM pgwork.tick o WHERE o.schedule = $1 ORDER BY o.slot DESC OFFSET 100 LIMIT 1)
$$;

-- The tag uses an interval, because a session may know UTC as an abbreviation of another time: see _cron_after().
CREATE FUNCTION pgwork._cron_enqueue(s pgwork.schedule, slot timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id bigint;
BEGIN
    SELECT e.id INTO id
      FROM pgwork.enqueue(s.queue, s.payload, s.kind, s.body, s.priority, NULL, NULL, s.max_attempts, s.lease_ms,
                          coalesce(s.tags, '{}') || ('schedule=' || s.name)
                          || ('slot=' || to_char(slot AT TIME ZONE interval '0', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), s.key,
                          ttl_ms => s.ttl_ms, grp => s.grp) e;
    UPDATE pgwork.tick t SET job = id WHERE t.schedule = s.id AND t.slot = _cron_enqueue.slot;
    RETURN id;
END $$;

-- Enqueues the due ticks of one schedule, whose row the caller has locked. Returns their number. Does
-- not wait long for an open transaction that holds a unique key: the schedule is tried again. Without a
-- queue it only plans: missed ticks stay due until a node claims one, so the doctor can report them.
CREATE FUNCTION pgwork._cron_fire(s pgwork.schedule, at timestamptz, most bigint, patience_ms integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
DECLARE
    e pgwork._cron := pgwork._cron_parse(s.expression);
    fired bigint := 0;
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    IF s.queue IS NULL THEN
        s := pgwork._cron_plan(s, e, at);
    ELSE
        s := pgwork._cron_due(s, e, at);
    END IF;
    WHILE s.queue IS NOT NULL AND s.next_at <= at AND fired < most LOOP
        IF pgwork._cron_decide(s, s.next_slot, at) THEN
            PERFORM pgwork._cron_enqueue(s, s.next_slot);
            s.last_slot := s.next_slot;
            s.last_at := at;
            fired := fired + 1;
        END IF;
        s.base := s.next_slot;
        s := pgwork._cron_plan(s, e, at);
    END LOOP;
    UPDATE pgwork.schedule t SET base = s.base, next_slot = s.next_slot, next_at = s.next_at, planned_at = s.planned_at,
                                 last_slot = s.last_slot, last_at = s.last_at, error = s.error, error_at = s.error_at
     WHERE t.id = s.id;
    IF fired > 0 THEN
        PERFORM pgwork._cron_trim(s.id);
    END IF;
    RETURN fired;
END $$;

-- The failure of one schedule does not affect others. It is tried again in ten seconds, also a
-- requested tick: otherwise the node that claims would find it due again at once, forever.
CREATE FUNCTION pgwork._cron_failed(schedule bigint, error text, at timestamptz) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE pgwork.schedule t
       SET error = left($2, 1000), error_at = $3, next_at = $3 + interval '10 s', planned_at = $3,
           next_slot = CASE WHEN t.queue IS NOT NULL THEN t.next_slot END,
           asked = CASE WHEN t.asked IS NOT NULL THEN $3 + interval '10 s' END
     WHERE t.id = $1
$$;

-- Tests pass `at`, all others use the server's clock. One open transaction can block many schedules, and
-- the same pass requeues jobs. So after the first blocked schedule the others hardly wait, and after
-- three seconds the next pass continues with them. The first one waits longer than a compaction takes.
CREATE FUNCTION pgwork._cron_tick(batch integer, at timestamptz, OUT fired bigint, OUT next_ms bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    s pgwork.schedule;
    began timestamptz := clock_timestamp();
    blocked boolean := false;
    soonest integer;
BEGIN
    fired := 0;
    FOR s IN
        SELECT * FROM pgwork.schedule t
         WHERE NOT t.paused AND (t.queue IS NOT NULL AND t.next_at <= at OR t.planned_at < at - interval '1 hour')
         ORDER BY t.next_at LIMIT batch FOR UPDATE SKIP LOCKED
    LOOP
        BEGIN
            fired := fired + pgwork._cron_fire(s, at, batch - fired, CASE WHEN blocked THEN 20 ELSE 2000 END);
        EXCEPTION
            WHEN serialization_failure THEN
                RAISE; -- an error of the transaction, not of the schedule
            WHEN lock_not_available THEN
                blocked := true;
                PERFORM pgwork._cron_failed(s.id, SQLERRM, at);
            WHEN assert_failure OR OTHERS THEN
                PERFORM pgwork._cron_failed(s.id, SQLERRM, at);
        END;
        EXIT WHEN fired >= batch OR blocked AND clock_timestamp() > began + interval '3 s';
    END LOOP;
    -- A due schedule that was skipped is locked by another scheduler, which usually commits at once, but may keep its transaction open.
    soonest := CASE WHEN FOUND THEN 10 ELSE 250 END;
    SELECT CASE WHEN fired >= batch THEN 0 WHEN m.due <= at THEN soonest
                ELSE greatest(10, ceil(extract(epoch FROM m.due - at) * 1000)) END INTO next_ms
      FROM (SELECT min(t.next_at) AS due FROM pgwork.schedule t WHERE NOT t.paused AND t.queue IS NOT NULL) m
     WHERE m.due IS NOT NULL;
END $$;

CREATE FUNCTION pgwork.cron_tick(batch integer DEFAULT 1000, OUT fired bigint, OUT next_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(batch BETWEEN 1 AND 100000, 'batch', batch::text, '1..100000');
    SELECT t.fired, t.next_ms INTO fired, next_ms FROM pgwork._cron_tick(batch, clock_timestamp()) t;
END $$;

CREATE FUNCTION pgwork.cron_run(name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule := pgwork._schedule(name);
    at timestamptz := clock_timestamp();
BEGIN
    IF s.queue IS NULL THEN
        UPDATE pgwork.schedule t SET asked = at WHERE t.id = s.id;
        RETURN NULL;
    END IF;
    PERFORM pgwork._cron_decide(s, at, at), pgwork._cron_trim(s.id);
    UPDATE pgwork.schedule t SET last_slot = at, last_at = at WHERE t.id = s.id;
    RETURN pgwork._cron_enqueue(s, at);
END $$;

-- ---- ticks that a node holds ---------------------------------------------------------------------------------

-- Gives one due tick to a node: first a tick whose node timed out, under a higher fencing number;
-- otherwise a new tick. Also plans again what was planned an hour ago.
CREATE FUNCTION pgwork._cron_claim(node text, schedules text[], at timestamptz, OUT schedule text, OUT slot timestamptz, OUT token uuid,
    OUT attempt integer, OUT until timestamptz, OUT kind text, OUT payload jsonb, OUT body bytea, OUT next_ms bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    s pgwork.schedule;
    e pgwork._cron;
BEGIN
    LOOP
        SELECT * INTO s FROM pgwork.schedule t
         WHERE t.queue IS NULL AND (schedules IS NULL OR t.name = ANY (schedules))
           AND CASE WHEN t.slot IS NOT NULL THEN t.until <= at
                    ELSE t.asked <= at OR NOT t.paused AND (t.next_at <= at OR t.planned_at < at - interval '1 hour') END
         ORDER BY t.slot IS NULL, t.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        IF s.slot IS NOT NULL AND coalesce(s.max_attempts, 10) BETWEEN 1 AND s.attempt THEN
            UPDATE pgwork.tick t SET finished_at = _cron_claim.at, error = format('given up: %s nodes timed out', s.attempt)
             WHERE t.schedule = s.id AND t.slot = s.slot;
            UPDATE pgwork.schedule t SET slot = NULL, token = NULL, holder = NULL, since = NULL, until = NULL, attempt = 0,
                                         error = format('the tick of %s was given up: %s nodes timed out', s.slot, s.attempt), error_at = at
             WHERE t.id = s.id;
            CONTINUE;
        ELSIF s.slot IS NULL THEN
            BEGIN
                e := pgwork._cron_parse(s.expression);
                IF s.asked <= at THEN
                    s.slot := s.asked;
                    s.asked := NULL;
                ELSE
                    s := pgwork._cron_due(s, e, at);
                    IF s.next_at <= at THEN
                        s.slot := s.next_slot;
                        s.base := s.next_slot;
                    END IF;
                END IF;
                s := pgwork._cron_plan(s, e, at);
                IF s.slot IS NOT NULL AND NOT pgwork._cron_decide(s, s.slot, at) THEN
                    s.slot := NULL;
                END IF;
                s.attempt := 0;
            EXCEPTION
                WHEN serialization_failure THEN
                    RAISE;
                WHEN assert_failure OR OTHERS THEN
                    PERFORM pgwork._cron_failed(s.id, SQLERRM, at);
                    CONTINUE;
            END;
        END IF;
        IF s.slot IS NOT NULL THEN
            PERFORM pgwork._wait_for_disk();
            s.attempt := s.attempt + 1;
            s.fence := nextval('pgwork.schedule_fence');
            s.token := pgwork._token(s.fence, right(replace(gen_random_uuid()::text, '-', ''), 16));
            s.until := at + s.timeout_ms * interval '1 ms';
            s.last_slot := s.slot;
            s.last_at := at;
            UPDATE pgwork.tick t SET attempt = s.attempt, holder = node WHERE t.schedule = s.id AND t.slot = s.slot;
            PERFORM pgwork._cron_trim(s.id);
        END IF;
        UPDATE pgwork.schedule t
           SET base = s.base, next_slot = s.next_slot, next_at = s.next_at, planned_at = s.planned_at, asked = s.asked, error = s.error,
               error_at = s.error_at, last_slot = s.last_slot, last_at = s.last_at, slot = s.slot, token = s.token,
               holder = CASE WHEN s.slot IS NOT NULL THEN node END, since = CASE WHEN s.slot IS NOT NULL THEN at END,
               until = s.until, attempt = s.attempt, fence = s.fence
         WHERE t.id = s.id;
        IF s.slot IS NOT NULL THEN
            SELECT s.name, s.slot, s.token, s.attempt, s.until, s.kind, s.payload, s.body
              INTO schedule, slot, token, attempt, until, kind, payload, body;
            EXIT;
        END IF;
    END LOOP;
    -- At least once a minute, even if there is nothing (NULL, which least() ignores), because schedules change. Another
    -- node has locked a due tick that was skipped. It usually commits at once, but may keep its transaction open.
    SELECT greatest(10, least(60000, ceil(extract(epoch FROM min(CASE WHEN d.due <= at AND schedule IS NULL THEN at + interval '500 ms' ELSE d.due END) - at) * 1000)))
      INTO next_ms
      FROM (SELECT CASE WHEN t.slot IS NOT NULL THEN t.until ELSE least(t.asked, CASE WHEN NOT t.paused THEN t.next_at END) END AS due
              FROM pgwork.schedule t WHERE t.queue IS NULL AND (schedules IS NULL OR t.name = ANY (schedules))) d;
END $$;

CREATE FUNCTION pgwork.cron_claim(node text, schedules text[] DEFAULT NULL, OUT schedule text, OUT slot timestamptz, OUT token uuid,
    OUT attempt integer, OUT until timestamptz, OUT kind text, OUT payload jsonb, OUT body bytea, OUT next_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(node) BETWEEN 1 AND 255, 'node', node, '1 to 255 bytes');
    SELECT c.* INTO schedule, slot, token, attempt, until, kind, payload, body, next_ms
      FROM pgwork._cron_claim(node, schedules, clock_timestamp()) c;
END $$;

CREATE FUNCTION pgwork.cron_extend(token uuid, timeout_ms bigint DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    later timestamptz;
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(cron_extend.timeout_ms, 100) BETWEEN 100 AND 604800000, 'timeout_ms', cron_extend.timeout_ms::text, '100..604800000 (a week)');
    PERFORM pgwork._wait_for_disk();
    UPDATE pgwork.schedule t SET until = clock_timestamp() + coalesce(cron_extend.timeout_ms, t.timeout_ms) * interval '1 ms'
     WHERE t.token = cron_extend.token AND t.slot IS NOT NULL
    RETURNING t.until INTO later;
    RETURN later;
END $$;

CREATE FUNCTION pgwork.cron_finish(token uuid, error text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.schedule;
BEGIN
    SELECT * INTO s FROM pgwork.schedule t WHERE t.token = cron_finish.token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pgwork.tick t SET finished_at = clock_timestamp(), error = left(cron_finish.error, 8000) WHERE t.schedule = s.id AND t.slot = s.slot;
    UPDATE pgwork.schedule t SET slot = NULL, token = NULL, holder = NULL, since = NULL, until = NULL, attempt = 0,
                                 error = CASE WHEN cron_finish.error IS NOT NULL THEN t.error END,
                                 error_at = CASE WHEN cron_finish.error IS NOT NULL THEN t.error_at END
     WHERE t.id = s.id;
    RETURN true;
END $$;

CREATE FUNCTION pgwork.cron_release(token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    UPDATE pgwork.schedule t SET until = clock_timestamp(), attempt = t.attempt - 1, token = NULL, holder = NULL, since = NULL
     WHERE t.token = cron_release.token;
    RETURN FOUND;
END $$;

-- For operators: takes a held tick from its node and makes the node's token stale, so that another node may claim it at once. A clock that
-- was ahead has also planned and decided too far: ticks in the future are discarded, the held one included, and planned again.
CREATE FUNCTION pgwork.cron_break(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.schedule := pgwork._schedule(name);
    at CONSTANT timestamptz := clock_timestamp();
    was_held CONSTANT boolean := s.token IS NOT NULL;
    ahead CONSTANT boolean := s.slot > at;
BEGIN
    IF was_held THEN
        s.error := format('role "%s" took the tick of %s from node "%s"', session_user, s.slot, s.holder);
        s.error_at := at;
        RAISE LOG 'pgwork: schedule "%": %', name, s.error;
    END IF;
    IF ahead THEN
        s.slot := NULL;
    END IF;
    IF s.base > at THEN
        s := pgwork._cron_afresh(s, at);
        s := pgwork._cron_plan(s, pgwork._cron_parse(s.expression), at);
    END IF;
    UPDATE pgwork.schedule t
       SET base = s.base, next_slot = s.next_slot, next_at = s.next_at, planned_at = s.planned_at, slot = s.slot, token = NULL, holder = NULL,
           since = NULL, until = CASE WHEN s.slot IS NOT NULL THEN at END, attempt = CASE WHEN s.slot IS NOT NULL THEN s.attempt ELSE 0 END,
           error = s.error, error_at = s.error_at
     WHERE t.id = s.id;
    RETURN was_held;
END $$;

-- ---- upkeep --------------------------------------------------------------------------------------------------

-- Schedules run wherever a reaper runs.
CREATE FUNCTION pgwork.maintain(batch integer DEFAULT 1000, OUT reaped bigint, OUT died bigint, OUT promoted bigint, OUT pruned bigint, OUT next_ms bigint,
    OUT stuck text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    due_ms bigint;
BEGIN
    SELECT t.next_ms INTO due_ms FROM pgwork.cron_tick(batch) t;
    SELECT m.reaped, m.died, m.promoted, m.pruned, m.next_ms, m.stuck INTO reaped, died, promoted, pruned, next_ms, stuck FROM pgwork._maintain_jobs(batch) m;
    next_ms := CASE WHEN pgwork._tick_gates(32) THEN 0
                    ELSE least(next_ms, due_ms, (pgwork._end_holds(NULL)).next_ms,
                               (SELECT greatest(g, 100) FROM pgwork.gated_ms() g WHERE g IS NOT NULL)) END;
END $$;

COMMENT ON VIEW pgwork.schedules IS 'Schedules: their settings, their next time, and their last error.';
COMMENT ON VIEW pgwork.ticks IS 'The newest decided ticks of each schedule.';
COMMENT ON FUNCTION pgwork.maintain(integer) IS 'Does what is due of cron_tick(), promote(), reap() and prune(); ends holds and moves low-water marks. Call it again after next_ms, each time in its own transaction. stuck: jobs that could not be moved, each reported once.';
COMMENT ON FUNCTION pgwork.cron_create(text, text, text, text, jsonb, text, bytea, integer, integer, bigint, text[], text, text, integer, bigint, bigint, bigint, bigint, text) IS
    'Creates a schedule, or replaces the settings of an existing one. Without a queue, cron_claim() returns its ticks. Returns the next time (NULL: paused), which changes only if expression or zone changes.';
COMMENT ON FUNCTION pgwork.cron_pause(text) IS 'Stops ticks until cron_resume(). A held tick continues.';
COMMENT ON FUNCTION pgwork.cron_resume(text) IS 'Ends a pause. Ticks that were due during the pause are lost.';
COMMENT ON FUNCTION pgwork.cron_rename(text, text) IS 'Changes the name and nothing else.';
COMMENT ON FUNCTION pgwork.cron_drop(text) IS 'Removes a schedule. The token of a held tick becomes stale.';
COMMENT ON FUNCTION pgwork.cron_run(text) IS 'Makes a tick now: enqueues its job and returns the id. Without a queue it returns NULL, and the next cron_claim() returns one tick, even after several requests.';
COMMENT ON FUNCTION pgwork.cron_tick(integer) IS 'Enqueues the jobs of all due ticks. Concurrent calls are safe. Part of maintain(). next_ms: when to call it again; NULL: no schedule.';
COMMENT ON FUNCTION pgwork.cron_claim(text, text[]) IS
    'Gives a due tick to a node, until the timeout of the schedule. If no tick is due, schedule is NULL; call it again after next_ms, a minute at most. Commit before the work: until then no other node can claim a tick of that schedule.';
COMMENT ON FUNCTION pgwork.cron_extend(uuid, bigint) IS 'Extends the timeout of a tick, and returns its end; NULL: another node has the tick.';
COMMENT ON FUNCTION pgwork.cron_finish(uuid, text) IS 'Finishes a tick, with or without an error. Without one, an error of the schedule is cleared. False: another node has the tick.';
COMMENT ON FUNCTION pgwork.cron_break(text) IS 'Takes a held tick from its node and makes the token stale, so that another node may claim it at once. Discards times that were planned by a clock that was ahead. False: no tick was held.';
COMMENT ON FUNCTION pgwork.cron_release(uuid) IS 'Releases a tick for another node. False: another node has it.';
