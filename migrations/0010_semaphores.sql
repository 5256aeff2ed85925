-- 0010: counting semaphores. At any time at most the given number of permits is held, each under a lease.
--
-- A permit is a row, so that sessions do not wait for a common counter. A grant is one or more permits under one token
-- (number, then nonce, as for jobs). The low bits of the number are the slot of its first permit.
--
-- Four advisory locks per semaphore:
--   gate   Shared by sessions that take, extend or release permits, until their transactions end. Exclusive for a
--          session that changes the number of permits. So no session uses a number that is changing. Each wait for this
--          lock has a limit.
--   count  Exclusive for grants while more permits are held than exist (after a resize down). Only then are held
--          permits counted, by one session at a time. That session keeps the lock if it gets permits.
--   turn   Exclusive for the waiter at the head of the queue. The other waiters wait for the lock, in the order of the
--          server. A session that does not wait gets permits only while no session holds the turn. So requests for one
--          permit cannot starve a request for many, and only one session polls. The key is computed from the name, so
--          that the turn can be released after the semaphore was dropped.
--   past   Shared by sessions that took or released permits while no session held the turn, until their transactions
--          end. A session that reaches the head meanwhile does not see their changes, and is not notified. It takes
--          this lock exclusively for an instant, to find out whether there are such sessions.

CREATE SEQUENCE pgwork.semaphore_grant AS bigint MAXVALUE 562949953421311; -- 2^49: number = grant * 2^14 + slot

CREATE TABLE pgwork.semaphore (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 255),
    permits    integer NOT NULL CHECK (permits BETWEEN 1 AND 10000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A permit is free if nonce IS NULL, if its lease or its session has ended, or if its job has left the gate of its
-- queue (0015_groups.sql). Only the primary key is indexed, so taking and releasing are HOT updates.
CREATE TABLE pgwork.permit (
    number      bigint,
    nonce       bigint,
    until       timestamptz,
    taken_at    timestamptz,
    semaphore   integer NOT NULL,
    slot        integer NOT NULL,
    size        integer,            -- permits of the grant
    session     integer,            -- pid, if the grant ends with the session
    holder      text,
    queue       integer,            -- queue, job, seq: the row of admitted_job of the job that has it, or had it last
    job         bigint,
    seq         bigint,
    PRIMARY KEY (semaphore, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION pgwork._semaphore(name text) RETURNS pgwork.semaphore
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.semaphore;
BEGIN
    SELECT * INTO s FROM pgwork.semaphore t WHERE t.name = _semaphore.name;
    IF NOT FOUND THEN
        PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
        RAISE EXCEPTION 'there is no semaphore "%"', left(name, 80)
            USING ERRCODE = 'PW003', HINT = 'pgwork.sema_create() creates one; names are case-sensitive';
    END IF;
    RETURN s;
END $$;

CREATE FUNCTION pgwork._turn_key(name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN hashtextextended('pgwork.sema.turn:' || name, 0);

-- Whether another session holds the turn. One expression, so that an interrupt cannot leave the shared lock behind.
CREATE FUNCTION pgwork._turn_held(name text) RETURNS boolean
LANGUAGE sql RETURN CASE WHEN pg_try_advisory_lock_shared(pgwork._turn_key(name)) THEN NOT pg_advisory_unlock_shared(pgwork._turn_key(name)) ELSE true END;

-- The lock that shows that the session of a grant is alive. A pid can be reused. Every role can see locks.
CREATE FUNCTION pgwork._grant_key(number bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN hashtextextended('pgwork.sema.grant:' || number::text, 0);

CREATE FUNCTION pgwork._grant_lives(number bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pgwork._advisory(pgwork._grant_key(number)) a WHERE a.granted)
$$;

-- Releases this session's lock of a lost grant, because a long session would collect many of them. Keeps the lock of a
-- grant that is held: the token may be wrong, or belong to another semaphore.
CREATE FUNCTION pgwork._grant_forget(token uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    no bigint := pgwork.token_number(token);
BEGIN
    IF EXISTS (SELECT FROM pgwork._advisory(pgwork._grant_key(no)) a WHERE a.granted AND a.pid = pg_backend_pid())
       AND NOT EXISTS (SELECT FROM pgwork.permit p WHERE p.number = no AND p.until > clock_timestamp()) THEN
        PERFORM pgwork._unlock_if_held(pgwork._grant_key(no));
    END IF;
END $$;

-- Whether the job that took the permit is still admitted.
CREATE FUNCTION pgwork._is_admitted(p pgwork.permit) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pgwork.admitted_job a
                    WHERE a.queue = p.queue AND a.id = p.job AND a.gate = '' AND a.seq = p.seq);
END $$;

-- The numbers of grants whose sessions have ended, or whose jobs are no longer admitted. Such a grant stays dead, and
-- numbers are not reused. If another session takes the permit meanwhile, the permit has a new number.
CREATE FUNCTION pgwork._grants_dead(semaphore integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT p.number FROM pgwork.permit p
                  WHERE p.semaphore = _grants_dead.semaphore AND p.nonce IS NOT NULL
                    AND CASE WHEN p.seq IS NOT NULL THEN NOT pgwork._is_admitted(p)
                             WHEN p.session IS NOT NULL THEN pgwork._grant_key(p.number) NOT IN (
                                 SELECT a.key FROM pgwork._advisory() a WHERE a.granted) END);
END $$;

-- Frees the permits of dead grants. The caller holds the gate exclusively, so no session takes one meanwhile.
CREATE FUNCTION pgwork._permits_of_the_dead(semaphore integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    dead bigint[] := pgwork._grants_dead(semaphore);
BEGIN
    UPDATE pgwork.permit p SET number = NULL, nonce = NULL, session = NULL
     WHERE p.semaphore = _permits_of_the_dead.semaphore AND p.number = ANY (dead);
END $$;

-- Raises an error that names the holder of a lock that was not obtained.
CREATE FUNCTION pgwork._gate_fault(s pgwork.semaphore, what text, key bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'semaphore "%" %: process %', left(s.name, 80), what,
        (SELECT left(coalesce(string_agg(a.pid::text, ', '), 'unknown'), 80) FROM pgwork._advisory(_gate_fault.key) a
          WHERE a.granted AND a.pid <> pg_backend_pid())
        USING ERRCODE = 'PW006', HINT = 'try again when that transaction has ended: see pg_stat_activity and pg_prepared_xacts';
END $$;

-- Takes the gate exclusively. An open transaction can hold it for long, and later sessions queue behind this one. Then
-- permits would end because they cannot be extended. So each wait is short, and between two waits others can pass.
CREATE FUNCTION pgwork._gate_shut(s pgwork.semaphore) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
BEGIN
    FOR i IN 1 .. 20 LOOP
        BEGIN
            PERFORM pgwork._advisory_take(pgwork._lock('sema.gate', s.id), false, true, 250);
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        PERFORM pg_sleep(0.25);
    END LOOP;
    PERFORM pgwork._gate_fault(s, 'is in use by open transactions', pgwork._lock('sema.gate', s.id));
END $$;

-- Takes the gate shared, for sessions that take, extend or release permits. The gate is usually shut for a moment only.
-- But its holder may keep its transaction open, and permits would end while their holders wait here. So does sema.past,
-- which the session at the head of the queue takes exclusively for an instant.
CREATE FUNCTION pgwork._gate_wait(s pgwork.semaphore, gate text, fault text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(pgwork._lock(gate, s.id));
EXCEPTION WHEN lock_not_available THEN
    PERFORM pgwork._gate_fault(s, fault, pgwork._lock(gate, s.id));
END $$;

-- The same, but first without waiting: usually the gate is open.
CREATE FUNCTION pgwork._gate_pass(s pgwork.semaphore) RETURNS void
LANGUAGE sql RETURN CASE WHEN NOT pg_try_advisory_xact_lock_shared(pgwork._lock('sema.gate', s.id)) THEN
    pgwork._gate_wait(s, 'sema.gate', 'is being resized or dropped by an open transaction') END;

-- Locks up to n free permits for this transaction, including those of dead grants. Skips those that others are taking.
-- had: skip permits whose last holder was a job (true), or was not a job (false); NULL: none.
CREATE FUNCTION pgwork._permits_available(semaphore integer, permits integer, n integer, dead bigint[], had boolean)
RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(SELECT p.slot FROM pgwork.permit p
                  WHERE p.semaphore = _permits_available.semaphore AND p.slot <= _permits_available.permits
                    AND (p.nonce IS NULL OR p.until <= clock_timestamp() OR p.number = ANY (dead))
                    AND (p.seq IS NOT NULL) IS DISTINCT FROM had
                  ORDER BY p.slot LIMIT n FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- The same for several permits: all n or none. First waits a moment for permits that others are taking. No deadlock can
-- arise, because it locks in the order of slots and holds no other permit. Then it skips permits of a transaction that
-- stays open. NULL: too few without these.
CREATE FUNCTION pgwork._permits_together(semaphore integer, permits integer, n integer, dead bigint[], had boolean)
RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    slots integer[];
BEGIN
    FOR wait IN REVERSE 1 .. 0 LOOP
        BEGIN
            IF wait = 1 THEN
                slots := ARRAY(SELECT p.slot FROM pgwork.permit p
                                WHERE p.semaphore = _permits_together.semaphore AND p.slot <= _permits_together.permits
                                  AND (p.nonce IS NULL OR p.until <= clock_timestamp() OR p.number = ANY (dead))
                                  AND (p.seq IS NOT NULL) IS DISTINCT FROM had
                                ORDER BY p.slot LIMIT n FOR NO KEY UPDATE);
            ELSE
                slots := pgwork._permits_available(semaphore, permits, n, dead, had);
            END IF;
            IF cardinality(slots) < n THEN
                RAISE EXCEPTION 'too few permits are free';
            END IF;
            RETURN slots;
        EXCEPTION
            WHEN raise_exception THEN -- nothing is locked now
                RETURN CASE wait WHEN 1 THEN '{}'::integer[] END;
            WHEN lock_not_available THEN
                NULL; -- another transaction stays open
        END;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION pgwork._permits_free(semaphore integer, permits integer, n integer, dead bigint[], had boolean)
RETURNS integer[] LANGUAGE sql
RETURN CASE n WHEN 1 THEN pgwork._permits_available(semaphore, permits, n, dead, had)
              ELSE pgwork._permits_together(semaphore, permits, n, dead, had) END;

-- The semaphore with its current number of permits. The caller holds the gate, so the number does not change meanwhile.
-- An older snapshot may not see a resize: then the lock of the row fails (40001).
CREATE FUNCTION pgwork._semaphore_now(semaphore integer) RETURNS pgwork.semaphore
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.semaphore;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT * INTO s FROM pgwork.semaphore t WHERE t.id = semaphore;
    ELSE
        SELECT * INTO s FROM pgwork.semaphore t WHERE t.id = semaphore FOR SHARE;
    END IF;
    RETURN s;
END $$;

-- Like _permits_free(), but while more permits are held than exist. Only a count shows what is free, and no other
-- session may take permits meanwhile. So one session counts at a time. It keeps the lock until its transaction ends
-- only if it gets permits. A permit that is being extended has a locked row, and counts as held.
CREATE FUNCTION pgwork._permits_counted(semaphore integer, permits integer, n integer, had boolean, OUT slots integer[],
    OUT dead bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    out_now integer;
BEGIN
    PERFORM pg_advisory_xact_lock(pgwork._lock('sema.count', semaphore));
    IF current_setting('transaction_isolation') <> 'read committed' THEN -- an old snapshot does not see later grants
        BEGIN
            PERFORM FROM pgwork.permit p WHERE p.semaphore = _permits_counted.semaphore ORDER BY p.slot FOR SHARE;
            RAISE EXCEPTION 'the snapshot sees all grants';
        EXCEPTION WHEN raise_exception THEN
            NULL; -- nothing is locked now: permits can be extended
        END;
    END IF;
    dead := pgwork._grants_dead(semaphore);
    SELECT (SELECT count(*) FROM pgwork.permit p WHERE p.semaphore = _permits_counted.semaphore AND p.nonce IS NOT NULL)
         - (SELECT count(*) FROM (SELECT FROM pgwork.permit p
                                   WHERE p.semaphore = _permits_counted.semaphore AND p.nonce IS NOT NULL
                                     AND (p.until <= clock_timestamp() OR p.number = ANY (dead)) FOR NO KEY UPDATE SKIP LOCKED) f) INTO out_now;
    IF out_now + n <= permits THEN
        slots := pgwork._permits_free(semaphore, permits, n, dead, had);
    END IF;
    IF cardinality(slots) < n OR slots IS NULL THEN
        RAISE EXCEPTION 'too few permits are free';
    END IF;
EXCEPTION WHEN raise_exception OR lock_not_available THEN -- nothing is locked now
    slots := NULL;
END $$;

-- Takes n permits or none. The caller holds the gate. next_ms: when to try again, at the latest when the first held
-- permit ends. job: for a job, whose id _open_gates() adds. While both jobs and sessions wait, a permit goes to them
-- alternately.
CREATE FUNCTION pgwork._permits_take(was pgwork.semaphore, n integer, ttl_ms bigint, holder text, session boolean,
    job boolean DEFAULT false, OUT token uuid, OUT until timestamptz, OUT next_ms bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.semaphore := pgwork._semaphore_now(was.id);
    slots integer[];
    excess boolean;
    had boolean;
    dead bigint[] := '{}';
    fresh bigint;
    noise text := gen_random_uuid()::text; -- 122 random bits; the fixed bits are in the middle
    salt bigint := ('x' || left(noise, 8) || right(noise, 8))::bit(64)::bigint;
    ends timestamptz;
BEGIN
    IF s.id IS NULL THEN
        RAISE EXCEPTION 'semaphore "%" was dropped', left(was.name, 80)
            USING ERRCODE = 'PW003', HINT = 'pgwork.sema_create() creates it again';
    ELSIF n > s.permits THEN
        RAISE EXCEPTION 'semaphore "%" has % permits: cannot acquire %', left(s.name, 80), s.permits, n
            USING ERRCODE = 'PW002', HINT = 'acquire fewer; pgwork.sema_resize() changes the number of permits';
    END IF;
    had := CASE WHEN job AND pgwork._turn_held(s.name) THEN true
                WHEN NOT job AND EXISTS (SELECT FROM pgwork._permit_line(s.id)) THEN false END;
    excess := EXISTS (SELECT FROM pgwork.permit p WHERE p.semaphore = s.id AND p.slot > s.permits);
    IF excess THEN
        SELECT c.slots, c.dead INTO slots, dead FROM pgwork._permits_counted(s.id, s.permits, n, had) c;
    ELSE
        slots := pgwork._permits_free(s.id, s.permits, n, dead, had);
        IF cardinality(slots) < n OR slots IS NULL THEN
            dead := pgwork._grants_dead(s.id);
            IF dead <> '{}' THEN
                slots := pgwork._permits_free(s.id, s.permits, n, dead, had);
            END IF;
        END IF;
    END IF;
    IF cardinality(slots) = n THEN
        PERFORM pgwork._wait_for_disk();
        fresh := nextval('pgwork.semaphore_grant') * 16384 + slots[1];
        ends := clock_timestamp() + ttl_ms * interval '1 ms';
        UPDATE pgwork.permit p
           SET number = fresh, nonce = salt, until = ends, taken_at = clock_timestamp(), size = n,
               session = CASE WHEN _permits_take.session THEN pg_backend_pid() END, holder = _permits_take.holder,
               queue = NULL, job = NULL, seq = NULL
         WHERE p.semaphore = s.id AND p.slot = ANY (slots);
        IF excess THEN -- last: a waiter for permits must not hold permits of another grant
            DELETE FROM pgwork.permit p
             WHERE p.semaphore = s.id AND p.slot = ANY (ARRAY(
                SELECT x.slot FROM pgwork.permit x
                 WHERE x.semaphore = s.id AND x.slot > s.permits
                   AND (x.nonce IS NULL OR x.until <= clock_timestamp() OR x.number = ANY (dead))
                   FOR UPDATE SKIP LOCKED));
        END IF;
        IF session THEN -- last: the lock would stay if the rest failed. The grant is not visible before the commit
            PERFORM pgwork._gate_fault(s, 'is locked by another program', pgwork._grant_key(fresh))
              WHERE NOT pg_try_advisory_lock_shared(pgwork._grant_key(fresh));
        END IF;
        token := pgwork._token(fresh, lpad(to_hex(salt), 16, '0'));
        until := ends;
    ELSE
        SELECT least(ceil(extract(epoch FROM min(p.until) FILTER (WHERE p.seq IS NULL) - clock_timestamp()) * 1000),
                     CASE WHEN count(p.seq) > 0 THEN 100 END) INTO next_ms -- the end of a job notifies no session
          FROM pgwork.permit p
         WHERE p.semaphore = s.id AND p.nonce IS NOT NULL AND p.until > clock_timestamp();
        IF slots IS NULL OR next_ms IS NULL THEN -- an open transaction has the permits, and its end is not known
            next_ms := least(next_ms, 500);
        END IF;
        next_ms := greatest(next_ms, 1);
    END IF;
END $$;

CREATE FUNCTION pgwork._sema_check(n integer, ttl_ms bigint, holder text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF n BETWEEN 1 AND 10000 AND ttl_ms BETWEEN 100 AND 86400000 AND octet_length(coalesce(holder, '')) <= 255 THEN
        RETURN;
    END IF;
    PERFORM pgwork._refuse_unless(n BETWEEN 1 AND 10000, 'n', n::text, '1..10000');
    PERFORM pgwork._refuse_unless(ttl_ms BETWEEN 100 AND 86400000, 'ttl_ms', ttl_ms::text, '100..86400000');
    PERFORM pgwork._refuse('holder', holder, 'at most 255 bytes');
END $$;

CREATE FUNCTION pgwork.sema_acquire(name text, n integer DEFAULT 1, ttl_ms bigint DEFAULT 30000, holder text DEFAULT NULL,
    session boolean DEFAULT false, OUT token uuid, OUT until timestamptz, OUT next_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.semaphore := pgwork._semaphore(name);
BEGIN
    PERFORM pgwork._sema_check(n, ttl_ms, holder);
    IF pgwork._turn_held(s.name) THEN
        RETURN; -- another session waits in front
    END IF;
    PERFORM pgwork._gate_wait(s, 'sema.past', 'is locked by another program');
    IF pgwork._turn_held(s.name) THEN
        RETURN; -- another session reached the head before: it would not see this grant, and would not be notified
    END IF;
    PERFORM pgwork._gate_pass(s);
    SELECT t.* INTO token, until, next_ms FROM pgwork._permits_take(s, n, ttl_ms, holder, session) t;
END $$;

-- Sets how long this session may stay idle before the server ends it. NULL: restores the old value.
CREATE FUNCTION pgwork._patience(ms bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before text := current_setting('pgwork.patience_before', true);
BEGIN
    IF ms IS NULL THEN
        IF before <> '' THEN
            PERFORM set_config('idle_session_timeout', before, false), set_config('pgwork.patience_before', '', false);
        END IF;
        RETURN;
    END IF;
    IF coalesce(before, '') = '' THEN
        PERFORM set_config('pgwork.patience_before', current_setting('idle_session_timeout'), false);
    END IF;
    PERFORM set_config('idle_session_timeout', ms::text, false);
END $$;

-- Releases the turn when the permits are taken, not at commit, so that the next waiter does not wait for the disk. The
-- rows stay locked until the commit. A client that is suspended at the head would block all others: patience_ms limits
-- that. A transaction that holds sema.past usually ends soon. So the head repeats its attempt after some milliseconds.
CREATE FUNCTION pgwork.sema_wait(name text, n integer, ttl_ms bigint, holder text, session boolean, wait_ms bigint, turn boolean,
    patience_ms bigint DEFAULT NULL, OUT token uuid, OUT until timestamptz, OUT next_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
DECLARE
    s pgwork.semaphore;
    key bigint := pgwork._turn_key(name);
    held boolean; -- whether this session has the turn, by pg_locks: a ROLLBACK would undo a setting, not the lock
    unseen boolean;
BEGIN
    s := pgwork._semaphore(name);
    PERFORM pgwork._sema_check(n, ttl_ms, holder);
    PERFORM pgwork._refuse_unless(wait_ms BETWEEN 0 AND 2147483647, 'wait_ms', wait_ms::text, '0..2147483647');
    PERFORM pgwork._refuse_unless(coalesce(patience_ms, 1) BETWEEN 1 AND 2147483647, 'patience_ms', patience_ms::text, '1..2147483647');
    PERFORM pgwork._refuse_unless(turn IS NOT NULL, 'turn', NULL, 'true if this session is at the head of the queue, otherwise false');
    held := EXISTS (SELECT FROM pgwork._advisory(key) a WHERE a.granted AND a.pid = pg_backend_pid() AND NOT a.shared);
    IF held AND NOT turn THEN
        held := NOT pgwork._unlock_if_held(key); -- a second hold would outlast the grant, and block all others
    END IF;
    IF NOT held THEN
        IF NOT pgwork._advisory_take(key, false, false, wait_ms) THEN
            PERFORM pgwork._patience(NULL);
            RETURN;
        END IF;
        PERFORM set_config('lock_timeout', '0', true);
    END IF;
    PERFORM pgwork._gate_pass(s);
    FOR i IN 0 .. 5 LOOP
        unseen := pgwork._held(pgwork._lock('sema.past', s.id));
        SELECT t.* INTO token, until, next_ms FROM pgwork._permits_take(s, n, ttl_ms, holder, session) t;
        EXIT WHEN token IS NOT NULL OR NOT unseen;
        next_ms := least(next_ms, 500);
        EXIT WHEN 2 ^ i > wait_ms;
        PERFORM pg_sleep(0.001 * 2 ^ i);
    END LOOP;
    IF token IS NOT NULL THEN
        PERFORM pg_advisory_unlock(key);
        patience_ms := NULL;
    END IF;
    PERFORM pgwork._patience(patience_ms);
EXCEPTION
    WHEN lock_not_available THEN
        PERFORM pgwork._unlock_if_held(key), pgwork._patience(NULL);
        token := NULL;
        next_ms := NULL;
    WHEN query_canceled OR OTHERS THEN
        PERFORM pgwork._unlock_if_held(key), pgwork._patience(NULL);
        RAISE;
END $$;

CREATE FUNCTION pgwork.sema_leave(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._patience(NULL);
    RETURN pgwork._unlock_if_held(pgwork._turn_key(name));
END $$;

-- Locks the permits of a token in the order of slots. NULL: they are free, or belong to another grant.
CREATE FUNCTION pgwork._permits_of(semaphore integer, token uuid) RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    no bigint := pgwork.token_number(token);
    salt bigint := ('x' || right(replace(token::text, '-', ''), 16))::bit(64)::bigint;
    first integer := no & 16383;
    many integer;
    slots integer[];
BEGIN
    SELECT p.size INTO many FROM pgwork.permit p
     WHERE p.semaphore = _permits_of.semaphore AND p.slot = first AND p.number = no AND p.nonce = salt;
    IF FOUND THEN
        slots := ARRAY(SELECT p.slot FROM pgwork.permit p
                        WHERE p.semaphore = _permits_of.semaphore AND p.slot >= first AND p.number = no AND p.nonce = salt
                        ORDER BY p.slot LIMIT many FOR NO KEY UPDATE);
        IF cardinality(slots) = many THEN
            RETURN slots;
        END IF;
    END IF;
    PERFORM pgwork._knows_holders();
    RETURN NULL;
END $$;

-- The semaphore of a token. If it was dropped, its grants are lost: releases the lock of this one, and fails.
CREATE FUNCTION pgwork._semaphore_of(name text, token uuid) RETURNS pgwork.semaphore
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s pgwork.semaphore;
BEGIN
    SELECT * INTO s FROM pgwork.semaphore t WHERE t.name = _semaphore_of.name;
    IF NOT FOUND THEN
        PERFORM pgwork._grant_forget(token); -- an error does not undo it
        s := pgwork._semaphore(name);
    END IF;
    RETURN s;
END $$;

-- A permit whose lease has ended is lost, even if no session has taken it yet: others may count it as free.
CREATE FUNCTION pgwork.sema_extend(name text, token uuid, ttl_ms bigint DEFAULT 30000) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.semaphore := pgwork._semaphore_of(name, token);
    slots integer[];
    ends timestamptz;
BEGIN
    PERFORM pgwork._sema_check(1, ttl_ms, NULL);
    PERFORM pgwork._gate_pass(s);
    PERFORM pgwork._semaphore_now(s.id); -- 40001 for an old snapshot
    slots := pgwork._permits_of(s.id, token); -- locked, so that a session that counts held permits counts them
    IF EXISTS (SELECT FROM pgwork.permit p WHERE p.semaphore = s.id AND p.slot = slots[1] AND p.until > clock_timestamp()
                  AND (p.session IS NULL OR pgwork._grant_lives(p.number))) THEN
        PERFORM pgwork._wait_for_disk();
        ends := clock_timestamp() + ttl_ms * interval '1 ms';
        UPDATE pgwork.permit p SET until = ends WHERE p.semaphore = s.id AND p.slot = ANY (slots);
    ELSE
        PERFORM pgwork._grant_forget(token);
    END IF;
    RETURN ends;
END $$;

-- Notifies the waiter at the head of the queue at commit. Checks twice: a session that reaches the head before this one
-- holds sema.past is notified. A session that reaches it later sees that sema.past is held.
CREATE FUNCTION pgwork._sema_wake(s pgwork.semaphore) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pgwork._turn_held(s.name) THEN
        PERFORM pgwork._gate_wait(s, 'sema.past', 'is locked by another program');
        IF NOT pgwork._turn_held(s.name) THEN
            RETURN;
        END IF;
    END IF;
    IF pgwork._may_notify() THEN
        PERFORM pg_notify('pgwork_sema_' || split_part('pgwork.', '.', 1), s.id::text);
    END IF;
END $$;

CREATE FUNCTION pgwork.sema_release(name text, token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.semaphore := pgwork._semaphore_of(name, token);
    slots integer[];
    owner integer;
    ends timestamptz;
    most integer;
    ours boolean;
BEGIN
    PERFORM pgwork._gate_pass(s);
    slots := pgwork._permits_of(s.id, token);
    IF slots IS NULL THEN
        PERFORM pgwork._grant_forget(token);
        RETURN false;
    END IF;
    SELECT p.session, p.until INTO owner, ends FROM pgwork.permit p WHERE p.semaphore = s.id AND p.slot = slots[1];
    ours := ends > clock_timestamp() AND (owner IS NULL OR pgwork._grant_lives(pgwork.token_number(token))); -- else others could take them
    IF owner = pg_backend_pid() AND ends > clock_timestamp() THEN
        PERFORM pg_advisory_unlock_shared(pgwork._grant_key(pgwork.token_number(token)));
    ELSIF owner = pg_backend_pid() THEN
        PERFORM pgwork._grant_forget(token); -- a late extension may have released it before
    END IF;
    most := (pgwork._semaphore_now(s.id)).permits;
    UPDATE pgwork.permit p SET number = NULL, nonce = NULL, session = NULL
     WHERE p.semaphore = s.id AND p.slot = ANY (slots) AND p.slot <= most;
    IF slots[cardinality(slots)] > most THEN
        DELETE FROM pgwork.permit p WHERE p.semaphore = s.id AND p.slot = ANY (slots) AND p.slot > most;
    END IF;
    PERFORM pgwork._sema_wake(s);
    RETURN ours;
END $$;

CREATE FUNCTION pgwork._sema_check_permits(permits integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(permits BETWEEN 1 AND 10000, 'permits', permits::text, '1..10000');
END $$;

CREATE FUNCTION pgwork.sema_create(name text, permits integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.semaphore;
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
    PERFORM pgwork._sema_check_permits(permits);
    LOOP -- until the semaphore exists: another session may drop it meanwhile
        -- Reads first, because an INSERT that conflicts uses up an id, and every process calls this when it starts.
        SELECT * INTO s FROM pgwork.semaphore t WHERE t.name = sema_create.name;
        EXIT WHEN FOUND;
        INSERT INTO pgwork.semaphore AS t (name, permits) VALUES (sema_create.name, sema_create.permits) ON CONFLICT DO NOTHING RETURNING t.* INTO s;
        IF FOUND THEN
            INSERT INTO pgwork.permit (semaphore, slot) SELECT s.id, g FROM generate_series(1, s.permits) g;
            RETURN;
        END IF;
    END LOOP;
    IF s.permits <> sema_create.permits THEN
        RAISE EXCEPTION 'semaphore "%" already exists with % permits, not %', left(name, 80), s.permits, permits
            USING ERRCODE = 'PW005', HINT = 'pgwork.sema_resize() changes the number of permits';
    END IF;
END $$;

CREATE FUNCTION pgwork.sema_resize(name text, permits integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.semaphore := pgwork._semaphore(name);
BEGIN
    PERFORM pgwork._sema_check_permits(permits);
    PERFORM pgwork._gate_shut(s);
    UPDATE pgwork.semaphore t SET permits = sema_resize.permits WHERE t.id = s.id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'semaphore "%" was dropped', left(s.name, 80)
            USING ERRCODE = 'PW003', HINT = 'pgwork.sema_create() creates it again';
    END IF;
    INSERT INTO pgwork.permit (semaphore, slot) SELECT s.id, g FROM generate_series(1, sema_resize.permits) g ON CONFLICT DO NOTHING;
    PERFORM pgwork._permits_of_the_dead(s.id);
    DELETE FROM pgwork.permit p
     WHERE p.semaphore = s.id AND p.slot > sema_resize.permits AND (p.nonce IS NULL OR p.until <= clock_timestamp());
    PERFORM pgwork._sema_wake(s);
END $$;

CREATE FUNCTION pgwork.sema_drop(name text, force boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s pgwork.semaphore := pgwork._semaphore(name);
    its_queue text;
BEGIN
    PERFORM pgwork._gate_shut(s);
    PERFORM pgwork._permits_of_the_dead(s.id);
    SELECT t.name INTO its_queue FROM pgwork.queue t WHERE (t.rate).semaphore = s.id ORDER BY t.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'semaphore "%" limits queue "%"', left(name, 80), its_queue
            USING ERRCODE = 'PW006', HINT = 'end that with pgwork.queue_semaphore(queue, NULL)';
    END IF;
    IF force IS NOT TRUE AND EXISTS (SELECT FROM pgwork.permit p WHERE p.semaphore = s.id AND p.nonce IS NOT NULL AND p.until > clock_timestamp()) THEN
        RAISE EXCEPTION 'permits of semaphore "%" are held', left(name, 80)
            USING ERRCODE = 'PW006', HINT = 'wait until they are released, or pass force => true: then the next extend of each holder fails';
    END IF;
    DELETE FROM pgwork.permit p WHERE p.semaphore = s.id;
    DELETE FROM pgwork.semaphore t WHERE t.id = s.id;
    PERFORM pgwork._sema_wake(s);
END $$;

CREATE FUNCTION pgwork.sema_list(name text DEFAULT NULL) RETURNS TABLE (name text, permits integer, taken integer, waiting integer)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH a AS MATERIALIZED (SELECT * FROM pgwork._advisory())
    SELECT s.name, s.permits,
           (SELECT count(*)::integer FROM pgwork.permit p
             WHERE p.semaphore = s.id AND p.nonce IS NOT NULL AND p.until > clock_timestamp()
               AND (p.session IS NULL OR pgwork._grant_key(p.number) IN (SELECT a.key FROM a WHERE a.granted))
               AND (p.seq IS NULL OR pgwork._is_admitted(p))),
           (SELECT count(*)::integer FROM a WHERE a.key = pgwork._turn_key(s.name) AND NOT a.shared)
      FROM pgwork.semaphore s WHERE ($1 IS NULL OR s.name = $1) AND pgwork._knows_holders()
     ORDER BY s.name
$$;

CREATE FUNCTION pgwork.sema_holders(name text) RETURNS TABLE (number bigint, permits integer, holder text, taken_at timestamptz, until timestamptz,
    pid integer)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH a AS MATERIALIZED (SELECT * FROM pgwork._advisory())
    SELECT p.number, count(*)::integer, min(p.holder), min(p.taken_at), nullif(min(p.until), 'infinity'), min(p.session)
      FROM pgwork.permit p
     WHERE p.semaphore = (SELECT s.id FROM pgwork.semaphore s WHERE s.name = $1) AND p.nonce IS NOT NULL AND p.until > clock_timestamp()
       AND (p.session IS NULL OR pgwork._grant_key(p.number) IN (SELECT a.key FROM a WHERE a.granted)) AND pgwork._knows_holders()
       AND (p.seq IS NULL OR pgwork._is_admitted(p))
     GROUP BY p.number ORDER BY min(p.taken_at), p.number
$$;

-- ---- locks of other programs ----

-- Lists sessions that hold or await an advisory lock with one of our keys, and have none of our roles. Any role that
-- can connect can take such a lock.
CREATE FUNCTION pgwork.foreign_locks(OUT pid integer, OUT username name, OUT granted boolean, OUT what text, OUT key bigint)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH l AS MATERIALIZED (
        SELECT a.pid, u.rolname AS username, a.granted, a.key, a.gate
          FROM (SELECT a.pid, a.granted, a.key, false AS gate FROM pgwork._advisory() a
                UNION ALL SELECT g.pid, g.granted, g.base, true FROM pgwork._gates() g) a
          JOIN pg_stat_activity s ON s.pid = a.pid
          JOIN pg_roles u ON u.oid = s.usesysid
         WHERE NOT EXISTS (SELECT FROM pg_roles r
                            WHERE (r.rolname IN ('pgwork_producer', 'pgwork_worker', 'pgwork_operator') OR r.rolname = current_user)
                              AND pg_has_role(u.oid, r.oid, 'MEMBER'))
    ), k (what, low, high, gate) AS (
        SELECT format('queue "%s"', q.name), k.low, k.high, false
          FROM pgwork.queue q
         CROSS JOIN LATERAL (VALUES (pgwork._waiters(q.name, 0), pgwork._waiters(q.name, 767)),
                                    (pgwork._lock('replace', q.id), pgwork._lock('replace', q.id))) k (low, high)
        UNION ALL SELECT 'the reapers', pgwork._lock('tick', 0), pgwork._lock('tick', 0), false
        UNION ALL
        SELECT format('semaphore "%s"', s.name), k, k, false
          FROM pgwork.semaphore s
         CROSS JOIN unnest(ARRAY[pgwork._turn_key(s.name), pgwork._lock('sema.gate', s.id), pgwork._lock('sema.past', s.id),
                                 pgwork._lock('sema.count', s.id)]) k
        UNION ALL
        SELECT format('semaphore "%s"', s.name), pgwork._grant_key(p.number), pgwork._grant_key(p.number), false
          FROM pgwork.permit p JOIN pgwork.semaphore s ON s.id = p.semaphore WHERE p.session IS NOT NULL
        UNION ALL SELECT format('lock "%s"', n.name), n.key, n.key, false FROM pgwork.named_lock n
        UNION ALL SELECT format('lock "%s"', n.name), n.key & -8, n.key & -8, true FROM pgwork.named_lock n
    )
    SELECT l.pid, l.username, l.granted, coalesce(k.what, format('lock with the key %s, whose name was never acquired', l.key)), l.key
      FROM l LEFT JOIN k ON k.gate = l.gate AND l.key BETWEEN k.low AND k.high
     WHERE k.what IS NOT NULL -- or another session waits in line for it
        OR NOT l.gate AND EXISTS (SELECT FROM pgwork._gates() g WHERE g.base = l.key & -8)
$$;

-- Takes an advisory lock until the end of the transaction. False: after a second a session with one of our roles still
-- holds it. If a session without our roles holds it, returns true without the lock.
CREATE FUNCTION pgwork._in_turn(key bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(key);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN EXISTS (SELECT FROM pgwork.foreign_locks() f WHERE f.key = _in_turn.key AND f.granted);
END $$;

COMMENT ON FUNCTION pgwork.foreign_locks() IS 'Sessions that hold or await an advisory lock of pgwork, of roles that are not members of its roles.';
COMMENT ON TABLE pgwork.semaphore IS 'Counting semaphores.';
COMMENT ON TABLE pgwork.permit IS 'One row per permit, with the grant that holds it.';
COMMENT ON FUNCTION pgwork.sema_create(text, integer) IS 'Creates a semaphore. Does nothing if it exists with the same number of permits.';
COMMENT ON FUNCTION pgwork.sema_resize(text, integer) IS 'Changes the number of permits, even while permits are held. If more are held than the new number, the rest are removed as they are released, and nothing is granted until then. Waits up to ten seconds for open transactions that have just taken or released permits. Commit at once: until then no session can take, extend or release permits, and gets PW006 after a second.';
COMMENT ON FUNCTION pgwork.sema_drop(text, boolean) IS 'Removes a semaphore; refuses while permits are held unless forced, and while it limits a queue. Waits as sema_resize() does. Commit at once, too.';
COMMENT ON FUNCTION pgwork.sema_acquire(text, integer, bigint, text, boolean) IS 'Takes n permits for ttl_ms, all or none; commit at once: until then no other session can have them. token NULL: not enough are free (the first is released in next_ms at the latest), or another session waits in front. session: the permits are released when this session ends.';
COMMENT ON FUNCTION pgwork.sema_wait(text, integer, bigint, text, boolean, bigint, boolean, bigint) IS 'Like sema_acquire(), but waits for the turn, at most wait_ms. token NULL and next_ms given: this session is at the head of the queue; LISTEN pgwork_sema_<schema>, and call again with turn => true at a notification or after next_ms (with false it goes to the end); or sema_leave(), also after an error. patience_ms: the server ends a session that is idle at the head for so long, by idle_session_timeout.';
COMMENT ON FUNCTION pgwork.sema_leave(text) IS 'Leaves the head of the queue.';
COMMENT ON FUNCTION pgwork.sema_extend(text, uuid, bigint) IS 'Extends the lease of permits to ttl_ms from now; returns its end. NULL: the lease had ended, the permits are lost.';
COMMENT ON FUNCTION pgwork.sema_release(text, uuid) IS 'Releases the permits of a token; false: their lease had ended, and other sessions may have them. A session''s permits are free at once, even if the transaction is rolled back.';
COMMENT ON FUNCTION pgwork.sema_list(text) IS 'Permits, held permits and waiting sessions of one semaphore or all.';
COMMENT ON FUNCTION pgwork.sema_holders(text) IS 'The grants that are held; pid: they end with that session; until NULL: they end with the job.';
