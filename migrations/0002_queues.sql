-- 0002: queues, their settings, and helpers for the later files. Names of private functions begin with _. They run
-- under the search_path of the public functions that call them. Errors: PW001 bad argument, PW002 over a limit, PW003
-- no such queue, PW004 draining, PW005 unique key taken, PW006 not empty. HINT says what to do next.

-- `i` is the number of the refused element in the input of a call. The library reads it from DETAIL.
CREATE FUNCTION pgwork._raise(code text, message text, hint text, i bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF i IS NULL THEN RAISE EXCEPTION '%', message USING ERRCODE = code, HINT = hint; END IF;
    RAISE EXCEPTION '%', message USING ERRCODE = code, HINT = hint, DETAIL = 'This is element ' || i || ' of the call.';
END $$;

CREATE FUNCTION pgwork._refuse(argument text, value text, allowed text, i bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    message text := format('argument %s is %s: expected %s', argument,
                           coalesce('"' || left(value, 78) || '"', 'NULL'), allowed);
BEGIN
    IF i IS NULL THEN RAISE EXCEPTION '%', message USING ERRCODE = 'PW001'; END IF;
    RAISE EXCEPTION '%', message USING ERRCODE = 'PW001', DETAIL = 'This is element ' || i || ' of the call.';
END $$;

CREATE FUNCTION pgwork._refuse_unless(ok boolean, argument text, value text, allowed text, i bigint DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF ok IS NOT TRUE THEN PERFORM pgwork._refuse(argument, value, allowed, i); END IF;
END $$;

CREATE FUNCTION pgwork._check_range(name text, value bigint, low bigint, high bigint, note text DEFAULT '') RETURNS void
LANGUAGE sql RETURN pgwork._refuse_unless(value BETWEEN low AND high, name, value::text, low || '..' || high || note);

CREATE FUNCTION pgwork._check_queue_name(name text) RETURNS void LANGUAGE sql
RETURN pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 200 AND name !~ '[[:cntrl:]]', 'queue', name,
                             '1 to 200 bytes without control characters');

-- Returns the row of a queue. PW003 if there is no such queue.
CREATE FUNCTION pgwork._queue(name text) RETURNS pgwork.queue LANGUAGE plpgsql AS $$
DECLARE q pgwork.queue;
BEGIN
    SELECT * INTO q FROM pgwork.queue t WHERE t.name = _queue.name;
    IF NOT FOUND THEN
        PERFORM pgwork._check_queue_name(name);
        RAISE EXCEPTION 'there is no queue "%"', name
            USING ERRCODE = 'PW003', HINT = 'pgwork.queue_create() creates one; names are case-sensitive';
    END IF;
    RETURN q;
END $$;

-- Limits the number of queues, because upkeep and lists read them all. Does not count uncommitted ones.
CREATE FUNCTION pgwork._make_queue(name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE most CONSTANT bigint := (SELECT s.value FROM pgwork.setting s WHERE s.name = 'max_queues');
BEGIN
    IF (SELECT count(*) FROM pgwork.queue) >= most THEN
        PERFORM pgwork._raise('PW002', format('cannot create queue "%s": at most %s queues may exist', name, most),
            'drop unused queues, or raise the limit: SELECT pgwork.setting(''max_queues'', ''20000'')', NULL);
    END IF;
    INSERT INTO pgwork.queue (name) VALUES (name) ON CONFLICT DO NOTHING;
END $$;

-- The same, but creates a missing queue, unless the setting implicit_queues is off.
CREATE FUNCTION pgwork._queue_made(name text) RETURNS pgwork.queue
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Checks first, because ON CONFLICT draws an id even if it inserts nothing.
    IF NOT EXISTS (SELECT FROM pgwork.queue t WHERE t.name = _queue_made.name)
       AND (SELECT value FROM pgwork.setting s WHERE s.name = 'implicit_queues') = 'on' THEN
        PERFORM pgwork._check_queue_name(name), pgwork._make_queue(name);
    END IF;
    RETURN pgwork._queue(name);
END $$;

CREATE FUNCTION pgwork.queue_create(queue text, lease_ms bigint DEFAULT NULL, max_attempts integer DEFAULT NULL,
    backoff_ms bigint DEFAULT NULL, backoff_cap_ms bigint DEFAULT NULL, retention_ms bigint DEFAULT NULL,
    max_bytes integer DEFAULT NULL, notify boolean DEFAULT NULL, expired text DEFAULT NULL,
    dead_retention_ms bigint DEFAULT NULL, payload_visible boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._check_queue_name(queue);
    LOOP -- waits for a queue that is being dropped
        PERFORM FROM pgwork.queue t WHERE t.name = queue_create.queue FOR KEY SHARE;
        EXIT WHEN FOUND; -- otherwise the INSERT would draw an id
        PERFORM pgwork._make_queue(queue);
    END LOOP;
    PERFORM pgwork.queue_set(queue, lease_ms, max_attempts, backoff_ms, backoff_cap_ms, retention_ms, max_bytes,
                             notify, expired, dead_retention_ms, payload_visible);
END $$;

CREATE FUNCTION pgwork.queue_set(queue text, lease_ms bigint DEFAULT NULL, max_attempts integer DEFAULT NULL,
    backoff_ms bigint DEFAULT NULL, backoff_cap_ms bigint DEFAULT NULL, retention_ms bigint DEFAULT NULL,
    max_bytes integer DEFAULT NULL, notify boolean DEFAULT NULL, expired text DEFAULT NULL,
    dead_retention_ms bigint DEFAULT NULL, payload_visible boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE q pgwork.queue := pgwork._queue(queue);
BEGIN
    PERFORM pgwork._check_range(a.name, a.value, a.low, a.high, a.note)
       FROM (VALUES ('lease_ms', lease_ms, 100, 86400000, ''), ('backoff_ms', backoff_ms, 0, 31536000000, ' (a year)'),
                    ('max_attempts', nullif(max_attempts, -1), 1, 1000, ', or -1 (no limit)'),
                    ('backoff_cap_ms', backoff_cap_ms, 0, 31536000000, ' (a year)'),
                    ('retention_ms', retention_ms, 0, 3153600000000, ' (0: keep nothing)'),
                    ('dead_retention_ms', nullif(dead_retention_ms, -1), 1, 3153600000000, ', or -1 (for ever)'),
                    ('max_bytes', max_bytes, 1, 268435455, '')) a (name, value, low, high, note)
      WHERE a.value IS NOT NULL;
    PERFORM pgwork._refuse_unless(coalesce(expired, 'dead') IN ('dead', 'drop'), 'expired', expired, 'dead or drop');
    UPDATE pgwork.queue t
       SET lease_ms = coalesce(lease_ms, t.lease_ms), max_attempts = coalesce(max_attempts, t.max_attempts),
           backoff_ms = coalesce(backoff_ms, t.backoff_ms), backoff_cap_ms = coalesce(backoff_cap_ms, t.backoff_cap_ms),
           retention_ms = coalesce(retention_ms, t.retention_ms), max_bytes = coalesce(max_bytes, t.max_bytes),
           notify = coalesce(notify, t.notify), expired = coalesce(expired, t.expired),
           dead_retention_ms = coalesce(dead_retention_ms, t.dead_retention_ms),
           payload_visible = coalesce(payload_visible, t.payload_visible)
     WHERE t.id = q.id AND num_nonnulls(lease_ms, max_attempts, backoff_ms, backoff_cap_ms, retention_ms, max_bytes,
                                        notify, expired, dead_retention_ms, payload_visible) > 0;
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF; -- it may have been dropped
END $$;

CREATE FUNCTION pgwork._set_state(queue text, paused boolean, draining boolean) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    UPDATE pgwork.queue t SET paused = coalesce(paused, t.paused), draining = coalesce(draining, t.draining)
     WHERE t.name = queue AND (t.paused <> paused OR t.draining <> draining);
    IF NOT FOUND THEN PERFORM pgwork._queue(queue); END IF; -- no change, unless the queue does not exist
END $$;

CREATE FUNCTION pgwork.queue_drain(queue text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp RETURN pgwork._set_state(queue, NULL, true);
-- The time older_than_ms ago. NULL or 0: infinity, so that all rows are older.
CREATE FUNCTION pgwork._before(older_than_ms bigint) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgwork._check_range('older_than_ms', coalesce(older_than_ms, 0), 0, 3153600000000, ', or NULL for all');
    RETURN CASE WHEN older_than_ms > 0 THEN pgwork._now() - older_than_ms * interval '1 ms' ELSE 'infinity' END;
END $$;

-- Skips leased jobs, and rows that other transactions have locked or just changed. Works in batches: `last` is where a
-- batch ended, an id, or for live_job lane * 2^58 + position. A short batch need not be the last: rows are skipped.
CREATE FUNCTION pgwork.queue_purge(queue text, state text DEFAULT 'ready', batch bigint DEFAULT NULL,
    older_than_ms bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    q pgwork.queue := pgwork._queue(queue);
    before timestamptz; wanted bigint := batch; gone bigint := 0; one text; went record;
BEGIN
    PERFORM pgwork._refuse_unless(state IN ('ready', 'delayed', 'dead', 'done', 'all'), 'state', state,
                                  'ready, delayed, dead, done or all'),
            pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, 'at least 1, or NULL for all');
    before := pgwork._before(older_than_ms);
    FOREACH one IN ARRAY CASE state WHEN 'all' THEN '{ready,delayed,dead,done}' ELSE ARRAY[state] END LOOP
        SELECT 0::bigint AS last INTO went;
        LOOP
            EXECUTE format($q$
                WITH d (at, id, n, key) AS (DELETE FROM pgwork.%1$I j
                     WHERE j.ctid = ANY (ARRAY(SELECT t.ctid FROM pgwork.%1$I t
                                                WHERE t.queue = $1 AND t.created_at < $4 AND %2$s
                                                LIMIT $3 FOR UPDATE SKIP LOCKED))
                    RETURNING %3$s, j.key
                ) SELECT count(*) AS rows, coalesce(sum(d.n), 0) AS jobs, max(d.at) AS last, array_agg(d.id) AS ids,
                         array_agg(d.key) AS keys FROM d $q$,
                VARIADIC CASE one WHEN 'ready' THEN ARRAY['live_job', -- a row may be several jobs
                    't.token IS NULL AND (t.lane, t.pos) > (($2 >> 58)::smallint, $2 & 288230376151711743)'
                    ' ORDER BY t.lane, t.pos', '(j.lane::bigint << 58) + j.pos, coalesce(j.id, j.pos), j.n']
                ELSE ARRAY[one || '_job', 't.id > $2 ORDER BY t.id', 'j.id, j.id, 1'] END)
               INTO went USING q.id, went.last, least(wanted, 10000), before;
            PERFORM pgwork._free(q.id, went.ids, went.keys) WHERE num_nonnulls(VARIADIC went.keys) > 0;
            PERFORM pgwork._leave_gates(q.id, went.ids);
            gone := gone + went.jobs; wanted := wanted - went.rows;
            EXIT WHEN went.rows = 0 OR wanted = 0;
        END LOOP;
        EXIT WHEN wanted = 0;
    END LOOP;
    RETURN gone;
END $$;

-- The tables whose rows belong to a queue. A reaper rewrites rows of the last five, and would wait for a queue_drop().
CREATE FUNCTION pgwork._places() RETURNS text[] LANGUAGE sql IMMUTABLE
RETURN string_to_array('live_job,delayed_job,dead_job,done_job,cancel_request,unique_key,operation,expiring_job,hold,'
                       'group_rule,admitted_job,gate_event,job_history,mark,gate_mark,gate_rate,total,minute', ',');

CREATE FUNCTION pgwork.queue_drop(queue text, force boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE q pgwork.queue := pgwork._queue(queue_drop.queue); place text;
BEGIN
    IF force IS NOT TRUE AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'cannot drop queue "%" at isolation level "%": it may have jobs outside of this snapshot',
                        q.name, current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported', HINT = 'drop it at READ COMMITTED, or pass force => true';
    END IF;
    -- Deletes the row first: a later enqueue finds no queue. An enqueue that read the row before and commits
    -- afterwards leaves invisible jobs, which prune() deletes. So drain the queue, wait, then drop it.
    DELETE FROM pgwork.queue t WHERE t.id = q.id;
    IF force IS NOT TRUE AND (EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = q.id)
                           OR EXISTS (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id)
                           OR EXISTS (SELECT FROM pgwork.dead_job j WHERE j.queue = q.id)) THEN
        RAISE EXCEPTION 'queue "%" still has jobs', q.name
            USING ERRCODE = 'PW006', HINT = 'delete them with pgwork.queue_purge(), or pass force => true';
    END IF;
    FOREACH place IN ARRAY (pgwork._places())[:13] LOOP -- prune() deletes the rest
        EXECUTE format('DELETE FROM pgwork.%I j WHERE j.queue = $1', place) USING q.id;
    END LOOP;
END $$;

CREATE FUNCTION pgwork.setting(name text, value text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now_is text := (SELECT s.value FROM pgwork.setting s WHERE s.name = setting.name);
BEGIN
    PERFORM pgwork._refuse_unless(now_is IS NOT NULL, 'name', name,
                                  (SELECT string_agg(s.name, ', ' ORDER BY s.name) FROM pgwork.setting s));
    IF value IS NULL THEN RETURN now_is; END IF;
    PERFORM pgwork._refuse_unless(value IN ('on', 'off'), 'value', value, 'on or off') WHERE now_is IN ('on', 'off');
    PERFORM pgwork._refuse_unless(CASE WHEN value ~ '^[0-9]{1,15}$' THEN value::bigint <= 3153600000000 END,
                                  'value', value, '0..3153600000000') WHERE now_is NOT IN ('on', 'off');
    UPDATE pgwork.setting s SET value = setting.value WHERE s.name = setting.name;
    RETURN value;
END $$;

-- ---- waking up workers ----
-- A waiting worker holds three shared advisory locks: for its queue, for its group of 16 slots, and for its slot.
-- Workers are spread over 256 slots, each with its own channel, because waking up more workers than there are jobs
-- costs more than the jobs. An enqueue that can take the first lock knows that no worker waits.

CREATE FUNCTION pgwork._lock(what text, number integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (hashtextextended('pgwork.' || what, 0) >> 1) + number;

-- The lock keys of a queue's waiters: 0..255 a slot, 256..271 a group, 272 all. A transaction that wakes up a slot
-- holds 512 + slot. Keys depend on the name, so they stay the same if the queue is dropped and created again.
CREATE FUNCTION pgwork._waiters(queue text, which integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (hashtextextended('pgwork.' || queue, 1) >> 1) + which;

-- Whether another session holds that lock. One expression, so that it is inlined.
CREATE FUNCTION pgwork._held(key bigint) RETURNS boolean
LANGUAGE sql RETURN CASE WHEN pg_try_advisory_lock(key) THEN NOT pg_advisory_unlock(key) ELSE true END;

-- Whether a notification may be sent. While a listening session of any database keeps a transaction open, the
-- server keeps all later notifications. When their storage is full, transactions with NOTIFY cannot commit.
CREATE FUNCTION pgwork._may_notify() RETURNS boolean LANGUAGE sql RETURN pg_notification_queue_usage() < 0.9;

-- Wakes up as many waiters as there are jobs, at commit. NOTIFY locks the whole database at commit, so it is sent
-- only if a worker waits, and by one transaction per slot at a time. Never waits: a worker that is missed polls.
CREATE FUNCTION pgwork._wake(queue text, jobs bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE first CONSTANT integer := random() * 256; slot integer; part integer; -- the group
BEGIN
    IF NOT pgwork._held(pgwork._waiters(queue, 272)) OR NOT pgwork._may_notify() THEN RETURN; END IF;
    FOR i IN 0 .. 15 LOOP
        part := (first / 16 + i) & 15;
        CONTINUE WHEN NOT pgwork._held(pgwork._waiters(queue, 256 + part));
        FOR j IN 0 .. 15 LOOP
            slot := part * 16 + (first + j & 15);
            IF pgwork._held(pgwork._waiters(queue, slot))
               AND pg_try_advisory_xact_lock(pgwork._waiters(queue, 512 + slot)) THEN
                PERFORM pg_notify('pgwork_wake_' || split_part('pgwork.', '.', 1)
                                  || CASE slot WHEN 0 THEN '' ELSE '_' || slot END, queue);
                jobs := jobs - 1;
                IF jobs <= 0 THEN RETURN; END IF;
            END IF;
        END LOOP;
    END LOOP;
END $$;

CREATE FUNCTION pgwork.idle(queues text[], slot integer DEFAULT 0) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE key bigint; ours bigint[] := '{}'; -- session locks, which a failure must release
BEGIN
    PERFORM pgwork._check_range('slot', slot, 0, 255);
    FOR key IN SELECT k FROM unnest(queues) q CROSS JOIN unnest(ARRAY[slot, 256 + slot / 16, 272]) w
                       CROSS JOIN LATERAL pgwork._waiters(q, w) k LOOP
        ours := ours || key;
        PERFORM pg_advisory_lock_shared(key);
    END LOOP;
    RETURN pgwork.absent(queues);
EXCEPTION WHEN query_canceled OR OTHERS THEN -- such as a full lock table of the server
    PERFORM pg_advisory_unlock_shared(o) FROM unnest(ours) o; -- the server warns about the last one, which is not held
    RAISE;
END $$;

CREATE FUNCTION pgwork.awake(queues text[], slot integer DEFAULT 0) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_unlock_shared(pgwork._waiters(q, w))
       FROM unnest(queues) q CROSS JOIN unnest(ARRAY[272, 256 + slot / 16, slot]) w;
END $$;

CREATE FUNCTION pgwork.absent(queues text[]) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN ARRAY(SELECT n FROM unnest(queues) n WHERE NOT EXISTS (SELECT FROM pgwork.queue t WHERE t.name = n));

COMMENT ON FUNCTION pgwork.queue_create IS 'Creates a queue, or changes the given settings of an existing one.';
COMMENT ON FUNCTION pgwork.queue_set IS 'Changes settings of a queue; NULL leaves a setting unchanged.';
COMMENT ON FUNCTION pgwork.queue_drain IS 'Stops enqueues until queue_resume(); claims continue.';
COMMENT ON FUNCTION pgwork.queue_purge IS 'Deletes jobs by state, never leased ones. Returns their number.';
COMMENT ON FUNCTION pgwork.queue_drop IS 'Removes a queue; refuses while it has jobs unless forced. Drain it first.';
COMMENT ON FUNCTION pgwork.setting IS 'Reads a setting of the schema, or sets it.';
COMMENT ON FUNCTION pgwork.idle IS 'Registers a waiter. LISTEN before it, claim once after it. Returns absent().';
COMMENT ON FUNCTION pgwork.awake IS 'Undoes idle() for the same queues and slot.';
COMMENT ON FUNCTION pgwork.absent IS 'Returns the given queues that do not exist, which a claim does not report.';
