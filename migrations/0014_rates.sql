-- 0014: rates (a limit of takes per period, with a burst) and holds of queues (no claims until a time).

-- ---- rates ----
-- A rate is one number, as in GCRA: the theoretical arrival time `tat`, in nanoseconds. A take moves it on by step_ns,
-- the time that one take costs. It is granted if tat is then at most span_ns (the burst) ahead of the server's clock:
-- so any window of W has at most burst + W / step_ns takes. Example: 10 a second, burst 2. Two takes at once put tat
-- 200 ms ahead, which is the span. The third one fits 100 ms later.
--
-- Tat is stored in an unlogged sequence. Setting it writes no row version, so a held snapshot leaves no chain of dead
-- tuples, and a transaction that rolls back returns nothing. It also writes no WAL, so a take needs no flush at commit.
-- After a crash of the server, and on a standby that was promoted, the sequence is new (is_called is false): then the
-- burst counts as used up. That is safe, since no tat can have been more than the span ahead of the clock.
--
-- Tat is read and set in one step under an advisory lock. Both happen in a subtransaction that is always rolled back,
-- which releases the lock at once, also after an error or a cancel. So an open transaction blocks no other take. It
-- blocks only rate_drop(), because the server locks a sequence until the transaction that has set it ends.

CREATE TABLE pgwork.rate (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 255),
    n          integer NOT NULL CHECK (n BETWEEN 1 AND 1000000),
    per_ms     bigint NOT NULL CHECK (per_ms BETWEEN 1 AND 31536000000),
    burst      integer NOT NULL CHECK (burst BETWEEN 1 AND 1000000),
    created_at timestamptz NOT NULL DEFAULT pgwork._now(),
    step_ns    bigint NOT NULL GENERATED ALWAYS AS ((per_ms * 1000000 + n - 1) / n) STORED -- rounded up: slower
);

CREATE FUNCTION pgwork._rate_tat(id integer) RETURNS regclass
LANGUAGE sql RETURN to_regclass('pgwork.rate_tat_' || id);

CREATE FUNCTION pgwork._now_ns() RETURNS bigint
LANGUAGE sql RETURN (extract(epoch FROM pgwork._now()) * 1000000)::bigint * 1000;

-- The rate's row, or PW003. An older snapshot does not show a change of the rate: FOR SHARE fails then (40001).
CREATE FUNCTION pgwork._rate(name text) RETURNS pgwork.rate LANGUAGE plpgsql AS $$
DECLARE r pgwork.rate;
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        SELECT * INTO r FROM pgwork.rate t WHERE t.name = _rate.name;
    ELSE
        SELECT * INTO r FROM pgwork.rate t WHERE t.name = _rate.name FOR SHARE;
    END IF;
    IF r.id IS NULL OR pgwork._rate_tat(r.id) IS NULL THEN -- a rate that was just dropped has no sequence
        PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
        RAISE EXCEPTION 'there is no rate "%"', left(name, 80)
            USING ERRCODE = 'PW003', HINT = 'pgwork.rate_set() creates one; names are case-sensitive';
    END IF;
    RETURN r;
END $$;

CREATE FUNCTION pgwork._rate_key(name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN hashtextextended('pgwork.rate:' || name, 0);

-- Takes as many as fit: from at_least to at_most, or none. wait_ms: the time until one more can be taken, or at_least
-- if none was taken. 0: at_most were taken. NULL: the lock was not available within a second.
CREATE FUNCTION pgwork._rate_advance(name text, at_least integer, at_most integer, OUT taken integer, OUT wait_ms bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE r pgwork.rate; tat regclass; was bigint; at bigint; now_ns bigint; span_ns bigint; fit integer := 0;
BEGIN
    taken := 0;
    BEGIN
        PERFORM pg_advisory_xact_lock(pgwork._rate_key(name));
        r := pgwork._rate(name);
        IF at_least > r.burst THEN
            RAISE EXCEPTION 'rate "%" has burst %: cannot take % at once', left(name, 80), r.burst, at_least
                USING ERRCODE = 'PW002', HINT = 'take fewer at a time, or set a larger burst with rate_set()';
        END IF;
        tat := pgwork._rate_tat(r.id);
        was := pg_sequence_last_value(tat);
        now_ns := pgwork._now_ns(); -- after the lock: so the times of takes are in order
        span_ns := r.step_ns * r.burst;
        -- Tat is further ahead than the burst if the clock was set back, or the rate was lowered.
        at := greatest(now_ns, least(coalesce(was, now_ns + span_ns), now_ns + span_ns));
        fit := least(at_most, (now_ns + span_ns - at) / r.step_ns);
        IF fit < at_least THEN fit := 0; END IF;
        at := at + fit * r.step_ns;
        IF fit > 0 OR was IS NULL OR was > at THEN PERFORM setval(tat, at); END IF;
        taken := fit;
        wait_ms := CASE WHEN fit = at_most THEN 0
                        ELSE greatest(1, ceil((at + r.step_ns * CASE fit WHEN 0 THEN at_least ELSE 1 END
                                               - span_ns - now_ns) / 1e6)) END;
        RAISE EXCEPTION USING ERRCODE = 'PW00R';
    EXCEPTION
        WHEN SQLSTATE 'PW00R' THEN NULL;        -- the usual case: this has released the lock
        WHEN lock_not_available THEN wait_ms := NULL; -- its holder hangs, or has not committed a rate_drop()
    END;
END $$;

-- For claims, which must not fail because of a rate.
CREATE FUNCTION pgwork._rate_take_up_to(name text, most integer, OUT taken integer, OUT wait_ms bigint)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT a.taken, coalesce(a.wait_ms, 250) INTO taken, wait_ms FROM pgwork._rate_advance(name, 1, most) a;
END $$;

CREATE FUNCTION pgwork._rate_take(name text, n integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE wait_ms CONSTANT bigint := (pgwork._rate_advance(name, n, n)).wait_ms;
BEGIN
    IF wait_ms IS NULL THEN
        RAISE EXCEPTION 'rate "%" is locked by process %', left(name, 80),
            (SELECT left(coalesce(string_agg(a.pid::text, ', '), 'unknown'), 80)
               FROM pgwork._advisory(pgwork._rate_key(name)) a WHERE a.granted AND a.pid <> pg_backend_pid())
            USING ERRCODE = 'PW006', HINT = 'try again when that transaction has ended: see pg_stat_activity';
    END IF;
    RETURN wait_ms;
END $$;

CREATE FUNCTION pgwork.rate_take(name text, n integer DEFAULT 1, wait_ms bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE until CONSTANT timestamptz := clock_timestamp() + wait_ms * interval '1 ms'; rest_ms bigint;
BEGIN
    PERFORM pgwork._check_range('n', n, 1, 1000000),
            pgwork._check_range('wait_ms', wait_ms, 0, 60000, ': a session that waits holds back vacuum');
    LOOP
        rest_ms := pgwork._rate_take(name, n);
        IF rest_ms = 0 OR clock_timestamp() + rest_ms * interval '1 ms' > until THEN RETURN rest_ms; END IF;
        PERFORM pg_sleep(rest_ms / 1000.0);
    END LOOP;
END $$;

CREATE FUNCTION pgwork.rate_set(name text, n integer, per_ms bigint, burst integer DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE its_id integer;
BEGIN
    burst := coalesce(burst, n);
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes'),
            pgwork._check_range('n', n, 1, 1000000),
            pgwork._check_range('per_ms', per_ms, 1, 31536000000, ' (a year)'),
            pgwork._check_range('burst', burst, 1, 1000000),
            pgwork._refuse_unless(n <= 1000 * per_ms, 'n', n::text, 'at most 1000 * per_ms'),
            pgwork._refuse_unless(burst::numeric * per_ms <= n * 315360000000, 'burst', burst::text,
                                  'at most the takes of ten years');
    LOOP -- until it exists: it may be dropped meanwhile
        UPDATE pgwork.rate t SET n = n, per_ms = per_ms, burst = burst
         WHERE t.name = name AND (t.n, t.per_ms, t.burst) <> (n, per_ms, burst);
        -- Reads first, because an INSERT that conflicts uses up an id.
        EXIT WHEN FOUND OR EXISTS (SELECT FROM pgwork.rate t WHERE t.name = name);
        INSERT INTO pgwork.rate AS t (name, n, per_ms, burst) VALUES (name, n, per_ms, burst)
            ON CONFLICT DO NOTHING RETURNING t.id INTO its_id;
        IF FOUND THEN
            EXECUTE format('CREATE UNLOGGED SEQUENCE pgwork.rate_tat_%s', its_id);
            PERFORM setval(pgwork._rate_tat(its_id), pgwork._now_ns());
            RETURN;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION pgwork.rate_drop(name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE its_id integer;
BEGIN
    DELETE FROM pgwork.rate t WHERE t.name = rate_drop.name RETURNING t.id INTO its_id;
    PERFORM pgwork._rate(name) WHERE its_id IS NULL; -- PW003
    EXECUTE format('DROP SEQUENCE pgwork.rate_tat_%s', its_id);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'rate "%" is in use by an open transaction', left(name, 80)
        USING ERRCODE = 'PW006', HINT = 'try again when that transaction has ended: see pg_stat_activity';
END $$;

-- start: the time from which the available takes have accumulated, at most the burst and no later than now.
CREATE FUNCTION pgwork.rate_list(name text DEFAULT NULL)
RETURNS TABLE (name text, n integer, per_ms bigint, burst integer, available integer, next_ms bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
    SELECT r.name, r.n, r.per_ms, r.burst, ((c.now_ns - s.start) / r.step_ns)::integer,
           greatest(0, ceil((s.start + r.step_ns - c.now_ns) / 1e6))::bigint
      FROM pgwork.rate r
     CROSS JOIN LATERAL (SELECT pgwork._now_ns() AS now_ns, r.step_ns * r.burst AS span_ns OFFSET 0) c
     CROSS JOIN LATERAL (SELECT least(c.now_ns, greatest(c.now_ns - c.span_ns, coalesce(
               pg_sequence_last_value(pgwork._rate_tat(r.id)) - c.span_ns, c.now_ns))) AS start OFFSET 0) s
     WHERE ($1 IS NULL OR r.name = $1) AND pgwork._rate_tat(r.id) IS NOT NULL ORDER BY r.name
$$;

-- ---- holds ----
-- A held queue is paused, and has a row here. So a claim reads this table only if a queue is paused; other claims cost
-- nothing more. A reaper ends a hold when its time has come; if none does, a claim. A change of the pause or the hold
-- locks the queue's row, and reads both in later statements.

CREATE TABLE pgwork.hold (
    queue  integer PRIMARY KEY,
    until  timestamptz NOT NULL,
    since  timestamptz NOT NULL DEFAULT pgwork._now(),
    reason text,
    paused boolean NOT NULL -- also paused by an operator, so it stays paused when the hold ends
);

CREATE FUNCTION pgwork._lock_queue(name text) RETURNS pgwork.queue
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM FROM pgwork.queue t WHERE t.name = _lock_queue.name FOR NO KEY UPDATE;
    RETURN pgwork._queue(name);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'queue "%" is being changed by an open transaction', name
        USING ERRCODE = 'PW006', HINT = 'try again when that transaction has ended: see pg_stat_activity';
END $$;

CREATE FUNCTION pgwork.queue_pause(queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE q CONSTANT pgwork.queue := pgwork._lock_queue(queue);
BEGIN
    UPDATE pgwork.hold h SET paused = true WHERE h.queue = q.id AND NOT h.paused;
    PERFORM pgwork._set_state(q.name, true, NULL);
END $$;

CREATE FUNCTION pgwork.queue_resume(queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE q CONSTANT pgwork.queue := pgwork._lock_queue(queue);
BEGIN
    UPDATE pgwork.hold h SET paused = false WHERE h.queue = q.id;
    PERFORM pgwork._set_state(q.name, FOUND, false), pgwork._wake(q.name, 256);
END $$;

-- If several workers hold a queue, the latest end counts. Returns the end.
CREATE FUNCTION pgwork._hold(its_queue text, until timestamptz, reason text) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE q pgwork.queue; ends timestamptz;
BEGIN
    SELECT h.until INTO ends FROM pgwork.hold h JOIN pgwork.queue t ON t.id = h.queue WHERE t.name = its_queue;
    IF ends >= _hold.until THEN RETURN ends; END IF; -- nothing to wait for
    q := pgwork._lock_queue(its_queue);
    INSERT INTO pgwork.hold AS h (queue, until, reason, paused)
    VALUES (q.id, _hold.until, pgwork._cut_text(_hold.reason, 1000), q.paused)
        ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
           SET until = greatest(h.until, excluded.until),
               reason = CASE WHEN excluded.until > h.until THEN excluded.reason ELSE h.reason END
    RETURNING h.until INTO ends;
    PERFORM pgwork._set_state(q.name, true, NULL);
    RETURN ends;
END $$;

CREATE FUNCTION pgwork.queue_hold(queue text, until timestamptz DEFAULT NULL, for_ms bigint DEFAULT NULL,
    reason text DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE top CONSTANT timestamptz := pgwork._now() + interval '315360000 s';
BEGIN
    PERFORM pgwork._refuse_unless(num_nonnulls(until, for_ms) = 1, 'for_ms', for_ms::text, 'exactly one of until and for_ms'),
            pgwork._check_range('for_ms', coalesce(for_ms, 1), 1, 315360000000, ' (ten years)'),
            pgwork._refuse_unless(coalesce(until > '-infinity' AND until <= top, true), 'until', until::text,
                                  'a time up to ' || top::date || ' (ten years from now)');
    RETURN pgwork._hold(queue, coalesce(until, pgwork._now() + for_ms * interval '1 ms'), reason);
END $$;

-- Ends a hold whose time is `up_to` or earlier. The caller has locked the queue's row. Returns whether there was one.
CREATE FUNCTION pgwork._unhold(q pgwork.queue, up_to timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE stays boolean;
BEGIN
    DELETE FROM pgwork.hold h WHERE h.queue = q.id AND h.until <= up_to RETURNING h.paused INTO stays;
    IF stays IS NULL THEN RETURN false; END IF;
    PERFORM pgwork._set_state(q.name, stays, NULL), pgwork._wake(q.name, 256);
    RETURN true;
END $$;

CREATE FUNCTION pgwork.queue_unhold(queue text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN RETURN pgwork._unhold(pgwork._lock_queue(queue), 'infinity'); END $$;

-- Ends holds whose time has come: all, or that of its_queue. Never waits. next_ms: the time until the next one ends. Does
-- nothing under an older snapshot: the transaction would fail if another session had ended a hold. A claim leaves it to the
-- reaper for a second, because the transaction of a claim may stay open and keep the queue's row locked.
CREATE FUNCTION pgwork._end_holds(its_queue text, OUT ended bigint, OUT next_ms bigint) LANGUAGE plpgsql AS $$
DECLARE q pgwork.queue;
BEGIN
    ended := 0;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN RETURN; END IF;
    FOR q IN SELECT t.* FROM pgwork.hold h JOIN pgwork.queue t ON t.id = h.queue
              WHERE h.until <= pgwork._now() - CASE WHEN its_queue IS NULL THEN interval '0' ELSE interval '1 s' END
                AND (its_queue IS NULL OR t.name = its_queue)
                FOR NO KEY UPDATE OF t SKIP LOCKED LOOP
        ended := ended + pgwork._unhold(q, pgwork._now())::integer;
    END LOOP;
    SELECT greatest(1, ceil(extract(epoch FROM min(h.until) - pgwork._now()) * 1000)) INTO next_ms
      FROM pgwork.hold h WHERE h.until > pgwork._now() HAVING count(*) > 0; -- or greatest() would say 1
END $$;

CREATE FUNCTION pgwork.queue_holds(queue text DEFAULT NULL)
RETURNS TABLE (queue text, until timestamptz, since timestamptz, reason text, paused boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.name, h.until, h.since, h.reason, h.paused FROM pgwork.hold h JOIN pgwork.queue t ON t.id = h.queue
     WHERE $1 IS NULL OR t.name = $1 ORDER BY t.name
$$;

-- For a claim that has found a queue paused or missing.
CREATE FUNCTION pgwork._claim_held(its_queue text, n integer, holder text, lease_ms bigint, apart boolean)
RETURNS SETOF pgwork.claimed_batch LANGUAGE plpgsql AS $$
BEGIN
    IF (pgwork._end_holds(its_queue)).ended > 0 THEN
        RETURN QUERY SELECT * FROM pgwork.claim_batch(ARRAY[its_queue], n, holder, lease_ms, NULL, NULL, apart);
    END IF;
END $$;

-- For a holder whose jobs have to wait, as after HTTP 429. Snoozes the jobs and holds the queue, or does neither.
CREATE FUNCTION pgwork.hold(queue text, ids bigint[], tokens uuid[], for_ms bigint, reason text DEFAULT NULL)
RETURNS TABLE (id bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE refused bigint;
BEGIN
    PERFORM pgwork._check_range('for_ms', for_ms, 1, 315360000000, ' (ten years)');
    RETURN QUERY SELECT * FROM pgwork._give_back(queue, ids, tokens, 'snooze', for_ms, NULL);
    GET DIAGNOSTICS refused = ROW_COUNT;
    PERFORM pgwork._hold(queue, pgwork._now() + for_ms * interval '1 ms', reason) WHERE refused < cardinality(ids);
END $$;

COMMENT ON TABLE pgwork.rate IS 'Rates: a number of takes per period, with a burst.';
COMMENT ON TABLE pgwork.hold IS 'Holds of queues: no claims until a time.';
COMMENT ON FUNCTION pgwork.rate_set IS 'Creates or changes a rate: n takes per per_ms, up to burst of them at once.';
COMMENT ON FUNCTION pgwork.rate_drop IS 'Removes a rate. Fails while an open transaction has taken from it.';
COMMENT ON FUNCTION pgwork.rate_list IS 'Rates. available: how many can be taken now; next_ms: the time until one can.';
COMMENT ON FUNCTION pgwork.rate_take IS 'Takes n from a rate, waits at most wait_ms. Returns 0, or the ms until they can be taken.';
COMMENT ON FUNCTION pgwork.queue_pause IS 'Stops claims until queue_resume(); enqueues continue. The end of a hold does not resume it.';
COMMENT ON FUNCTION pgwork.queue_resume IS 'Undoes queue_pause() and queue_drain(). A hold stays: queue_unhold() ends it.';
COMMENT ON FUNCTION pgwork.queue_hold IS 'Stops claims until a time, or for for_ms. Returns the end: an earlier hold may end later.';
COMMENT ON FUNCTION pgwork.queue_unhold IS 'Ends a hold now. False: there was none.';
COMMENT ON FUNCTION pgwork.queue_holds IS 'Holds of queues, and their reasons.';
COMMENT ON FUNCTION pgwork.hold IS 'Snoozes jobs and holds their queue, both for for_ms. Counts no attempt. Returns refused jobs.';
