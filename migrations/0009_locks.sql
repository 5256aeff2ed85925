-- 0009: named locks, each acquisition with a fencing number.
--
-- The lock itself is an advisory lock of the server, so it ends with its session (or transaction),
-- even if the process that took it is killed. Its 64-bit key is computed from the name by a rule that
-- any language can follow:
--
--   key = the first 8 bytes, big-endian and signed, of
--         sha256( 'pgwork-lock' || byte 0 || name of the schema || byte 0 || name of the lock )      all in UTF-8
--
-- A row of named_lock has the name that owns a key, and the number of its last acquisition. The number is drawn
-- while the lock is held. Each exclusive acquisition draws a new one, except that one transaction uses one number.
-- Shared holders at the same time have the same number, which is new if the last holder was exclusive. A number is
-- therefore current until another session could change what the lock protects. A number drawn in a transaction
-- counts after its commit. After a ROLLBACK the previous shared number is current.

CREATE SEQUENCE pgwork.lock_fence AS bigint;

CREATE TABLE pgwork.named_lock (
    key         bigint PRIMARY KEY,
    fence       bigint NOT NULL,
    taken_at    timestamptz NOT NULL,
    pid         integer NOT NULL, -- of the last session that drew a number
    shared      boolean NOT NULL,
    txn         xid8 NOT NULL DEFAULT pg_current_xact_id(), -- the transaction that drew it
    name        text COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE FUNCTION pgwork.lock_key(name text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ('x' || encode(substr(sha256('pgwork-lock'::bytea || '\x00'::bytea || convert_to(split_part('pgwork.', '.', 1), 'UTF8')
                                    || '\x00'::bytea || convert_to(name, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;

-- True, or an error on a standby, which cannot see locks of the primary. STABLE, so that a WHERE
-- evaluates it once, even if no row is found.
CREATE FUNCTION pgwork._knows_holders() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'this server is a standby: only the primary knows the holders of locks and permits'
            USING ERRCODE = 'read_only_sql_transaction', HINT = 'connect to the primary';
    END IF;
    RETURN true;
END $$;

-- Holders and waiters of advisory locks, for all keys or one.
CREATE FUNCTION pgwork._advisory(key bigint DEFAULT NULL, OUT key bigint, OUT pid integer, OUT shared boolean, OUT granted boolean,
    OUT waits_since timestamptz) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.classid::bigint << 32 | l.objid::bigint, l.pid, l.mode = 'ShareLock', l.granted, l.waitstart
      FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 1
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND ($1 IS NULL OR l.classid::bigint = ($1 >> 32 & 4294967295) AND l.objid::bigint = ($1 & 4294967295))
$$;

-- Releases a session lock if the session holds it. A grant that coincides with a timeout or a cancel can
-- leave the lock behind although the statement failed, because session locks survive their transaction.
CREATE FUNCTION pgwork._unlock_if_held(key bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mode boolean;
    was_held boolean := false;
BEGIN
    IF key IS NULL THEN
        RETURN false; -- for _advisory() NULL means every key, and the loops would never end
    END IF;
    PERFORM pg_advisory_unlock((key >> 32)::integer, pgwork._gate_low(key, g.place))
       FROM pgwork._gates(_unlock_if_held.key) g WHERE g.granted AND g.pid = pg_backend_pid();
    FOREACH mode IN ARRAY ARRAY[true, false] LOOP -- shared and exclusive
        WHILE EXISTS (SELECT FROM pgwork._advisory(_unlock_if_held.key) a WHERE a.granted AND a.pid = pg_backend_pid() AND a.shared = mode) LOOP
            -- a lock of the running transaction must stay
            EXIT WHEN NOT CASE WHEN mode THEN pg_advisory_unlock_shared(key) ELSE pg_advisory_unlock(key) END;
            was_held := true;
        END LOOP;
    END LOOP;
    RETURN was_held;
END $$;

-- Sessions that wait for an exclusive lock in lock_queue() stand in line at gates. A gate is an advisory lock of two integers: the
-- halves of the key, with the place (1 is the front) in the last three bits. A session holds one gate and waits for the next. So
-- the first eight waiters keep their places between statements without holding a snapshot. Gates are released with their session.
CREATE FUNCTION pgwork._gate_low(key bigint, place integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((key & 4294967288) | (place - 1))::bit(32)::integer;

CREATE FUNCTION pgwork._gates(key bigint DEFAULT NULL, OUT base bigint, OUT place integer, OUT pid integer, OUT granted boolean,
    OUT waits_since timestamptz) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.classid::bigint << 32 | (l.objid::bigint & 4294967288), (l.objid::bigint & 7)::integer + 1, l.pid, l.granted, l.waitstart
      FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 2
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND ($1 IS NULL OR l.classid::bigint = ($1 >> 32 & 4294967295) AND l.objid::bigint & 4294967288 = $1 & 4294967288)
$$;

-- Moves from a place (0: none) towards the front for at most wait_ms. Returns the new place.
CREATE FUNCTION pgwork._gates_pass(key bigint, place integer, wait_ms bigint) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    high CONSTANT integer := (key >> 32)::integer;
    until CONSTANT timestamptz := clock_timestamp() + wait_ms * interval '1 ms';
    ahead integer;
    left_ms bigint;
BEGIN
    WHILE place <> 1 LOOP
        ahead := CASE place WHEN 0 THEN 8 ELSE place - 1 END;
        IF NOT pg_try_advisory_lock(high, pgwork._gate_low(key, ahead)) THEN
            left_ms := pgwork._ms_until(until);
            EXIT WHEN left_ms = 0;
            PERFORM set_config('lock_timeout', left_ms::text, true);
            BEGIN
                PERFORM pg_advisory_lock(high, pgwork._gate_low(key, ahead));
            EXCEPTION WHEN lock_not_available THEN
                -- it may have been granted at this moment
                EXIT WHEN NOT EXISTS (SELECT FROM pgwork._gates(_gates_pass.key) g
                                       WHERE g.pid = pg_backend_pid() AND g.place = ahead AND g.granted);
            END;
        END IF;
        IF place > 0 THEN
            PERFORM pg_advisory_unlock(high, pgwork._gate_low(key, place));
        END IF;
        place := ahead;
    END LOOP;
    RETURN place;
END $$;

CREATE FUNCTION pgwork._ms_until(until timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN greatest(floor(extract(epoch FROM until - clock_timestamp()) * 1000), 0)::bigint;

-- Whether the lock's holder waits for this session, directly or not. The server does not detect that, because waits here are
-- shorter than deadlock_timeout. A holder may release the lock while it is looked at, and then wait in line behind this session:
-- so it must hold the lock afterwards, too.
CREATE FUNCTION pgwork._lock_circle(key bigint) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE behind (pid, holder) AS (
        SELECT a.pid, a.pid FROM pgwork._advisory($1) a WHERE a.granted AND a.pid <> pg_backend_pid()
        UNION
        SELECT b.pid, behind.holder FROM behind, unnest(pg_blocking_pids(behind.pid)) b (pid)
    )
    SELECT EXISTS (SELECT FROM behind WHERE behind.pid = pg_backend_pid()
                      AND EXISTS (SELECT FROM pgwork._advisory($1) a WHERE a.granted AND a.pid = behind.holder OFFSET 0))
$$;

-- Releases what a failed acquisition left behind, but not what the session held before. If the session already
-- held the mode, an acquisition is granted without a wait, so a lock left by a failed wait is its own.
CREATE FUNCTION pgwork._unlock_once(key bigint, shared boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pgwork._advisory(_unlock_once.key) a
                WHERE a.granted AND a.pid = pg_backend_pid() AND a.shared = _unlock_once.shared) THEN
        PERFORM CASE WHEN shared THEN pg_advisory_unlock_shared(key) ELSE pg_advisory_unlock(key) END;
    END IF;
END $$;

-- Tries one of the four kinds of advisory locks without waiting.
CREATE FUNCTION pgwork._advisory_try(key bigint, shared boolean, xact boolean) RETURNS boolean
LANGUAGE sql
RETURN CASE WHEN xact AND shared THEN pg_try_advisory_xact_lock_shared(key)
            WHEN xact THEN pg_try_advisory_xact_lock(key)
            WHEN shared THEN pg_try_advisory_lock_shared(key)
            ELSE pg_try_advisory_lock(key) END;

-- The same, but waits for the lock, up to timeout_ms (-1: without limit).
CREATE FUNCTION pgwork._advisory_wait(key bigint, shared boolean, xact boolean, timeout_ms bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('lock_timeout', greatest(timeout_ms, 0)::text, true);
    IF xact AND shared THEN
        PERFORM pg_advisory_xact_lock_shared(key);
    ELSIF xact THEN
        PERFORM pg_advisory_xact_lock(key);
    ELSIF shared THEN
        PERFORM pg_advisory_lock_shared(key);
    ELSE
        PERFORM pg_advisory_lock(key);
    END IF;
END $$;

-- Tries to take the lock, then waits for it. 0: does not wait.
CREATE FUNCTION pgwork._advisory_take(key bigint, shared boolean, xact boolean, timeout_ms bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    got boolean := pgwork._advisory_try(key, shared, xact);
BEGIN
    IF got OR timeout_ms = 0 THEN
        RETURN got;
    END IF;
    PERFORM pgwork._advisory_wait(key, shared, xact, timeout_ms);
    RETURN true;
END $$;

-- A number must survive a crash of the server, because it would be drawn again otherwise. So the
-- transaction waits for the disk, even if its session has set synchronous_commit = off.
CREATE FUNCTION pgwork._wait_for_disk() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Draws the number of an acquisition. The caller holds the advisory lock. Waits up to patience_ms
-- (0: without limit) for sessions that lock an older number by fence_ok(). Short waits for the row
-- itself are not limited. For a name without a row the limit is at least a second, because another
-- open transaction may be inserting it. A number that this transaction drew can be used again: the
-- transaction has locked the row since, so no other session drew one in between. A held lock is not
-- enough: a ROLLBACK to a savepoint may have undone the acquisition that drew the number.
CREATE FUNCTION pgwork._lock_stamp(name text, key bigint, shared boolean, patience_ms bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    number bigint;
BEGIN
    IF shared AND current_setting('transaction_isolation') = 'read committed' THEN -- otherwise it could be a number from before an exclusive holder
        SELECT t.fence INTO number FROM pgwork.named_lock t WHERE t.key = _lock_stamp.key AND t.name = _lock_stamp.name AND t.shared;
        IF FOUND THEN
            RETURN number;
        END IF;
    END IF;
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    SELECT CASE WHEN t.name = _lock_stamp.name AND t.shared = _lock_stamp.shared AND t.txn = pg_current_xact_id_if_assigned() THEN t.fence END
      INTO number FROM pgwork.named_lock t WHERE t.key = _lock_stamp.key AND NOT (t.shared AND _lock_stamp.shared) FOR NO KEY UPDATE;
    IF number IS NOT NULL THEN
        RETURN number;
    END IF;
    PERFORM set_config('lock_timeout', CASE WHEN FOUND OR patience_ms = 0 THEN '0' ELSE greatest(patience_ms, 1000)::text END, true),
            pgwork._wait_for_disk();
    INSERT INTO pgwork.named_lock AS t (key, fence, taken_at, pid, shared, name)
    VALUES (_lock_stamp.key, nextval('pgwork.lock_fence'), clock_timestamp(), pg_backend_pid(), _lock_stamp.shared, _lock_stamp.name)
    ON CONFLICT (key) DO UPDATE
       SET fence = excluded.fence, taken_at = excluded.taken_at, pid = excluded.pid, shared = excluded.shared, txn = excluded.txn
     WHERE t.name = excluded.name AND NOT (t.shared AND excluded.shared)
    RETURNING t.fence INTO number;
    IF NOT FOUND THEN
        -- another shared holder came first, or the key belongs to another name
        SELECT t.fence INTO number FROM pgwork.named_lock t WHERE t.key = _lock_stamp.key AND t.name = _lock_stamp.name;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'lock "%" has the same key as another lock in use', left(_lock_stamp.name, 80)
                USING ERRCODE = 'PW009', HINT = 'choose another name; pgwork.lock_prune() deletes names that are not in use any more';
        END IF;
    END IF;
    RETURN number;
END $$;

-- How long a statement may wait for a lock. CREATE INDEX CONCURRENTLY by the holder waits for a
-- waiter's snapshot. So the wait ends before the server reports a deadlock, after deadlock_timeout.
CREATE FUNCTION pgwork._lock_turn_ms() RETURNS bigint LANGUAGE sql STABLE
RETURN least(500, greatest(10, extract(epoch FROM current_setting('deadlock_timeout')::interval) * 500))::bigint;

CREATE FUNCTION pgwork._lock_take(name text, shared boolean, timeout_ms bigint, xact boolean) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
#variable_conflict use_column
DECLARE
    k bigint := pgwork.lock_key(name);
    began timestamptz := clock_timestamp();
    got boolean;
    ours boolean := false; -- true: a failure must release a session lock
BEGIN
    IF octet_length(name) BETWEEN 1 AND 255 AND shared IS NOT NULL AND timeout_ms BETWEEN 0 AND 500 THEN
        NULL; -- the normal case
    ELSE
        PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
        PERFORM pgwork._refuse_unless(shared IS NOT NULL, 'shared', shared::text, 'true or false');
        RAISE EXCEPTION 'argument timeout_ms is %: expected 0..500 (0: try once)', coalesce('"' || timeout_ms || '"', 'NULL') USING ERRCODE = 'PW001',
            HINT = 'a statement that waits holds its snapshot: to wait longer, CALL pgwork.lock_wait(name), or repeat the call';
    END IF;
    IF EXISTS (SELECT FROM pgwork.named_lock t WHERE t.key = k AND t.name <> _lock_take.name) THEN
        PERFORM pgwork._lock_stamp(name, k, shared, 0); -- raises an error for a key of another name, before any wait
    END IF;
    -- A session that already holds the lock gets it again at this first try. No cancel can come between
    -- the grant and the assignment to `ours`, so a failure before it has nothing to release.
    IF xact THEN
        got := pgwork._advisory_try(k, shared, true);
    ELSE
        ours := pgwork._advisory_try(k, shared, false);
        got := ours;
    END IF;
    -- Nothing is written before the lock is held, so a waiter holds no row.
    IF NOT got THEN
        IF timeout_ms = 0 THEN
            RETURN NULL;
        END IF;
        ours := NOT xact;
        PERFORM pgwork._advisory_wait(k, shared, xact, least(timeout_ms, pgwork._lock_turn_ms()));
    END IF;
    -- The rest of the time is for the row. A shared holder gives other shared holders time to commit.
    RETURN pgwork._lock_stamp(name, k, shared,
        greatest(CASE WHEN shared THEN 1000 ELSE 1 END, timeout_ms - floor(extract(epoch FROM clock_timestamp() - began) * 1000)::bigint));
EXCEPTION
    WHEN lock_not_available THEN
        IF ours THEN
            PERFORM pgwork._unlock_once(k, shared);
        END IF;
        RETURN NULL;
    WHEN query_canceled OR OTHERS THEN
        IF ours THEN
            PERFORM pgwork._unlock_once(k, shared);
        END IF;
        RAISE;
END $$;

CREATE FUNCTION pgwork.lock_acquire(name text, shared boolean DEFAULT false, timeout_ms bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pgwork._lock_take(name, shared, timeout_ms, false);
END $$;

CREATE FUNCTION pgwork.lock_acquire_xact(name text, shared boolean DEFAULT false, timeout_ms bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pgwork._lock_take(name, shared, timeout_ms, true);
END $$;

-- One step of a wait that consists of many statements. Each ends within half a second and half of deadlock_timeout, so
-- that CREATE INDEX CONCURRENTLY of the lock's holder does not wait longer for its snapshot. place: what the last step
-- returned, 0 at first. last: no other step follows. check_deadlock: check for a deadlock. fence NULL: not acquired yet.
CREATE FUNCTION pgwork.lock_queue(name text, shared boolean, xact boolean, wait_ms bigint, INOUT place integer, last boolean, check_deadlock boolean,
    OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
DECLARE
    k CONSTANT bigint := pgwork.lock_key(name);
    until timestamptz;
BEGIN
    PERFORM pgwork._refuse_unless(wait_ms BETWEEN 0 AND 500, 'wait_ms', wait_ms::text, '0..500'),
            pgwork._refuse_unless(place BETWEEN 0 AND 8, 'place', place::text, '0..8');
    until := clock_timestamp() + least(wait_ms, pgwork._lock_turn_ms()) * interval '1 ms'
             * CASE WHEN check_deadlock THEN 0.5 + random() / 2 ELSE 1 END; -- two that check at once see nobody wait
    IF place = 0 THEN
        fence := pgwork._lock_take(name, shared, 0, xact);
    END IF;
    IF fence IS NULL AND NOT (shared OR xact) THEN
        place := pgwork._gates_pass(k, place, pgwork._ms_until(until));
    END IF;
    IF fence IS NULL AND (shared OR xact OR place = 1) THEN
        fence := pgwork._lock_take(name, shared, pgwork._ms_until(until), xact);
    END IF;
    IF fence IS NULL AND check_deadlock AND pgwork._lock_circle(k) THEN
        RAISE EXCEPTION 'the holder of lock "%" waits for this session', left(name, 80)
            USING ERRCODE = 'deadlock_detected', HINT = 'acquire several locks in the same order everywhere';
    END IF;
    IF place > 0 AND (fence IS NOT NULL OR last) THEN
        PERFORM pg_advisory_unlock((k >> 32)::integer, pgwork._gate_low(k, place));
        place := 0;
    END IF;
END $$;

-- For psql: waits in many transactions, so that no snapshot is held for long. It takes no place in line, because a ^C would leave
-- the place behind and block others. A procedure that commits runs as its caller, so it calls public functions only.
CREATE PROCEDURE pgwork.lock_wait(name text, shared boolean DEFAULT false, timeout_ms bigint DEFAULT -1, INOUT fence bigint DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    began CONSTANT timestamptz := pg_catalog.clock_timestamp();
    left_ms bigint := timeout_ms;
BEGIN
    COMMIT; -- inside a transaction block this fails before anything is locked
    LOOP
        fence := pgwork.lock_acquire(name, shared, CASE timeout_ms WHEN -1 THEN 500 ELSE least(left_ms, 500) END);
        COMMIT;
        left_ms := greatest(0, timeout_ms - extract(epoch FROM pg_catalog.clock_timestamp() - began) * 1000);
        EXIT WHEN fence IS NOT NULL OR timeout_ms >= 0 AND left_ms = 0;
    END LOOP;
END $$;

CREATE FUNCTION pgwork.lock_release(name text, shared boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN shared THEN pg_advisory_unlock_shared(pgwork.lock_key(name)) ELSE pg_advisory_unlock(pgwork.lock_key(name)) END;
END $$;

CREATE FUNCTION pgwork.lock_forget(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pgwork._unlock_if_held(pgwork.lock_key(name));
END $$;

-- For operators: ends the sessions that hold the lock, and makes their number stale. Returns the number of sessions.
CREATE FUNCTION pgwork.lock_break(name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k CONSTANT bigint := pgwork.lock_key(name);
    holder integer;
    ended bigint := 0;
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes'), pgwork._knows_holders();
    FOR holder IN SELECT DISTINCT a.pid FROM pgwork._advisory(k) a WHERE a.granted AND a.pid <> pg_backend_pid() LOOP
        RAISE LOG 'pgwork: lock "%": role "%" ends session %, which holds it', left(name, 80), session_user, holder;
        ended := ended + pg_terminate_backend(holder, 5000)::integer; -- and waits until it has ended
    END LOOP;
    UPDATE pgwork.named_lock t SET fence = nextval('pgwork.lock_fence'), shared = false WHERE t.key = k AND t.name = lock_break.name AND ended > 0;
    RETURN ended;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'lock "%" is held by a session that role "%" may not end', left(name, 80), current_user USING ERRCODE = 'insufficient_privilege',
        HINT = format('GRANT pg_signal_backend TO %I, or end it as a superuser: SELECT pg_terminate_backend(pid) FROM pgwork.lock_list(%L)',
                      current_user, left(name, 80));
END $$;

-- FOR SHARE: the next session that acquires the lock must write this row, and waits for this transaction.
CREATE FUNCTION pgwork.fence_ok(name text, fence bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    current bigint;
BEGIN
    SELECT t.fence INTO current FROM pgwork.named_lock t WHERE t.key = pgwork.lock_key(fence_ok.name) AND t.name = fence_ok.name FOR SHARE;
    RETURN FOUND AND current IS NOT DISTINCT FROM fence_ok.fence; -- NULL: the lock was not obtained
END $$;

CREATE FUNCTION pgwork.lock_is_free(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes'), pgwork._knows_holders();
    RETURN NOT EXISTS (SELECT FROM pgwork._advisory(pgwork.lock_key(name)) a WHERE a.granted);
END $$;

-- A name has no row before its first acquisition commits, or if only other programs take its lock. lock_list(name) finds it by its key.
CREATE FUNCTION pgwork.lock_list(name text DEFAULT NULL) RETURNS TABLE (name text, state text, mode text, pid integer, application text,
    username text, client text, since timestamptz, fence bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH asked (key) AS (
        SELECT CASE WHEN $1 IS NOT NULL THEN pgwork.lock_key($1) END
    ), line AS ( -- 0 holds it, 1 is next, ...
        SELECT a.key, a.key AS last_key, CASE WHEN a.granted THEN 0 ELSE 1 END AS place, a.pid, a.shared, a.waits_since
          FROM asked, pgwork._advisory(asked.key) a
        UNION ALL
        SELECT g.base, g.base + 7, CASE WHEN g.granted THEN g.place ELSE g.place + 1 END, g.pid, false, g.waits_since
          FROM asked, pgwork._gates(asked.key) g
    ), placed AS ( -- the holder of a gate waits for the one before it
        SELECT DISTINCT ON (t.name, l.pid, l.shared AND l.place = 0) t.name, t.fence, t.taken_at, t.pid AS drawn_by, t.shared AS drawn_shared, l.place, l.pid AS who, l.shared AS mode, l.waits_since
          FROM line l
          LEFT JOIN pgwork.named_lock t ON t.key BETWEEN l.key AND l.last_key AND ($1 IS NULL OR t.name = $1)
         WHERE num_nonnulls(t.name, $1) > 0
         ORDER BY t.name, l.pid, l.shared AND l.place = 0, l.place
    )
    SELECT coalesce(p.name, $1), CASE WHEN p.place = 0 THEN 'held' ELSE 'waits' END, CASE WHEN p.mode THEN 'shared' ELSE 'exclusive' END, p.who,
           s.application_name, s.usename::text, host(s.client_addr),
           CASE WHEN p.place > 0 THEN p.waits_since WHEN p.who = p.drawn_by AND p.mode = p.drawn_shared THEN p.taken_at END,
           CASE WHEN p.place = 0 AND (p.who = p.drawn_by OR p.drawn_shared) AND p.mode = p.drawn_shared THEN p.fence END
      FROM placed p
      LEFT JOIN pg_stat_activity s ON s.pid = p.who
     WHERE pgwork._knows_holders()
     ORDER BY p.name, p.place, p.waits_since, p.who
$$;

CREATE FUNCTION pgwork.lock_prune(idle_ms bigint DEFAULT 604800000, batch integer DEFAULT 100) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k bigint;
    gone bigint := 0;
BEGIN
    PERFORM pgwork._refuse_unless(idle_ms BETWEEN 0 AND 3153600000000, 'idle_ms', idle_ms::text, '0..3153600000000');
    PERFORM pgwork._refuse_unless(batch BETWEEN 1 AND 1000, 'batch', batch::text, '1..1000');
    -- Held names do not count against the batch, because they could come first in every pass. An attempt to lock would not find
    -- locks of this session. This reads the whole table, but rarely; an index on taken_at would cost every acquisition.
    FOR k IN
        SELECT t.key FROM pgwork.named_lock t
         WHERE t.taken_at <= clock_timestamp() - idle_ms * interval '1 ms'
           AND t.key NOT IN (SELECT a.key FROM pgwork._advisory() a WHERE a.granted)
         LIMIT batch FOR UPDATE SKIP LOCKED
    LOOP
        -- Numbers come from one sequence, so a name that is used again continues above its old numbers.
        IF pg_try_advisory_xact_lock(k) THEN
            DELETE FROM pgwork.named_lock t WHERE t.key = k;
            gone := gone + 1;
        END IF;
    END LOOP;
    RETURN gone;
END $$;

COMMENT ON TABLE pgwork.named_lock IS 'Lock keys, the names that own them, and the fencing numbers of their last acquisitions.';
COMMENT ON FUNCTION pgwork.lock_key(text) IS 'The advisory lock of a name: first 8 bytes of sha256(pgwork-lock, 0, schema, 0, name). pg_advisory_lock(lock_key(...)) excludes the same holders, but draws no fencing number.';
COMMENT ON FUNCTION pgwork.lock_acquire(text, boolean, bigint) IS 'Takes a lock for this session and returns its fencing number; NULL: another session held it for timeout_ms (0: try, up to 500). Not inside BEGIN: a ROLLBACK would undo the number and keep the lock. A session may take its own lock again, as with pg_advisory_lock(). It then has a new number, and the old one is stale. If that fails, it keeps its earlier locks.';
COMMENT ON FUNCTION pgwork.lock_acquire_xact(text, boolean, bigint) IS 'Like lock_acquire(), for the running transaction: released by COMMIT or ROLLBACK. Use it behind a pooler in transaction mode. A transaction that takes it again gets the same number. The number is valid after the commit: do not pass it to anything outside the database before.';
COMMENT ON FUNCTION pgwork.lock_queue(text, boolean, boolean, bigint, integer, boolean, boolean) IS 'One step of a wait for a lock that holds no snapshot for long: call it again with the place that it returns, until fence is not NULL. last: no step follows. For clients. lock_acquire() waits in one statement, so for 500 ms at most.';
COMMENT ON PROCEDURE pgwork.lock_wait(text, boolean, bigint, bigint) IS 'Like lock_acquire(), but waits for timeout_ms (-1: without limit) in many short transactions, so that CREATE INDEX CONCURRENTLY under the lock ends. Not inside BEGIN.';
COMMENT ON FUNCTION pgwork.lock_release(text, boolean) IS 'Releases this session''s lock; false: it was not held.';
COMMENT ON FUNCTION pgwork.lock_forget(text) IS 'Releases all that this session holds of the lock; true: it held something. For clients whose lock_acquire() failed halfway.';
COMMENT ON FUNCTION pgwork.lock_break(text) IS 'Ends the sessions that hold the lock, and makes their fencing number stale. Returns the number of sessions. Needs pg_signal_backend for the owner of the schema.';
COMMENT ON FUNCTION pgwork.fence_ok(text, bigint) IS 'Whether this is still the number of the lock''s last acquisition. If true, it stays true until the transaction ends, because the next acquisition waits. If false, roll back.';
COMMENT ON FUNCTION pgwork.lock_is_free(text) IS 'Whether no session holds the lock, exclusive or shared. The answer may change at once.';
COMMENT ON FUNCTION pgwork.lock_list(text) IS 'Holders and waiters of one lock, or of all whose first acquisition is committed.';
COMMENT ON FUNCTION pgwork.lock_prune(bigint, integer) IS 'Deletes names that no session holds and whose number is older than idle_ms (default: a week). Consecutive shared holders share one number. Returns how many were deleted. If such a name is used again, its numbers continue above the old ones, which are stale.';
