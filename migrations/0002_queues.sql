-- 0002: queues and their settings; what every later function needs of them.
--
-- Errors that these functions raise: PW001 bad argument, PW002 over a limit, PW003 no such queue,
-- PW004 draining, PW005 unique key taken, PW006 not empty. HINT says what to do next, DETAIL which of many jobs it is.

-- Which of many a call was given is refused, for DETAIL; the library reads it.
CREATE FUNCTION pgwork._which(i bigint) RETURNS text
LANGUAGE sql IMMUTABLE RETURN 'It is number ' || i || ' of this call.';

CREATE FUNCTION pgwork._refuse(argument text, value text, allowed text, i bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message text := format('argument %s is %s: allowed is %s', argument, coalesce(left(quote_literal(value), 80), 'NULL'), allowed);
BEGIN
    IF i IS NULL THEN
        RAISE EXCEPTION '%', message USING ERRCODE = 'PW001';
    END IF;
    RAISE EXCEPTION '%', message USING ERRCODE = 'PW001', DETAIL = pgwork._which(i);
END $$;

CREATE FUNCTION pgwork._refuse_with_hint(code text, message text, hint text, i bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF i IS NULL THEN
        RAISE EXCEPTION '%', message USING ERRCODE = code, HINT = hint;
    END IF;
    RAISE EXCEPTION '%', message USING ERRCODE = code, HINT = hint, DETAIL = pgwork._which(i);
END $$;

CREATE FUNCTION pgwork._refuse_unless(ok boolean, argument text, value text, allowed text, i bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ok IS NOT TRUE THEN
        PERFORM pgwork._refuse(argument, value, allowed, i);
    END IF;
END $$;

CREATE FUNCTION pgwork._check_queue_name(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND 200 OR name ~ '[[:cntrl:]]' THEN
        PERFORM pgwork._refuse('queue', name, '1 to 200 bytes without control characters');
    END IF;
END $$;

-- The queue's row, or PW003.
CREATE FUNCTION pgwork._queue(name text) RETURNS pgwork.queue
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue;
BEGIN
    SELECT * INTO q FROM pgwork.queue t WHERE t.name = _queue.name;
    IF NOT FOUND THEN
        PERFORM pgwork._check_queue_name(name);
        RAISE EXCEPTION 'there is no queue %', quote_literal(name)
            USING ERRCODE = 'PW003', HINT = 'pgwork.queue_create() makes one; names are case-sensitive';
    END IF;
    RETURN q;
END $$;

-- The queue's row, made now unless the setting implicit_queues is off.
CREATE FUNCTION pgwork._queue_made(name text) RETURNS pgwork.queue
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue;
BEGIN
    -- ON CONFLICT draws a number even when it does nothing.
    SELECT * INTO q FROM pgwork.queue t WHERE t.name = _queue_made.name;
    IF FOUND THEN
        RETURN q;
    END IF;
    IF (SELECT value FROM pgwork.setting s WHERE s.name = 'implicit_queues') = 'on' THEN
        PERFORM pgwork._check_queue_name(name);
        INSERT INTO pgwork.queue (name) VALUES (name) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO q FROM pgwork._queue(name);
    RETURN q;
END $$;

CREATE FUNCTION pgwork.queue_create(queue text, lease_ms bigint DEFAULT NULL, max_attempts integer DEFAULT NULL,
    backoff_ms bigint DEFAULT NULL, backoff_cap_ms bigint DEFAULT NULL, retention_ms bigint DEFAULT NULL,
    max_bytes integer DEFAULT NULL, notify boolean DEFAULT NULL, bulk boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._check_queue_name(queue);
    LOOP -- one that is just being dropped is waited for
        PERFORM FROM pgwork.queue t WHERE t.name = queue_create.queue FOR KEY SHARE;
        EXIT WHEN FOUND; -- else it would draw a number
        INSERT INTO pgwork.queue (name) VALUES (queue) ON CONFLICT DO NOTHING;
    END LOOP;
    PERFORM pgwork.queue_set(queue, lease_ms, max_attempts, backoff_ms, backoff_cap_ms, retention_ms, max_bytes, notify, bulk);
END $$;

CREATE FUNCTION pgwork.queue_set(queue text, lease_ms bigint DEFAULT NULL, max_attempts integer DEFAULT NULL,
    backoff_ms bigint DEFAULT NULL, backoff_cap_ms bigint DEFAULT NULL, retention_ms bigint DEFAULT NULL,
    max_bytes integer DEFAULT NULL, notify boolean DEFAULT NULL, bulk boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(queue_set.queue);
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(queue_set.lease_ms, 100) BETWEEN 100 AND 86400000, 'lease_ms', queue_set.lease_ms::text, '100 .. 86400000');
    PERFORM pgwork._refuse_unless(coalesce(queue_set.max_attempts, 1) BETWEEN 1 AND 1000, 'max_attempts', queue_set.max_attempts::text, '1 .. 1000');
    PERFORM pgwork._refuse_unless(coalesce(queue_set.backoff_ms, 0) BETWEEN 0 AND 31536000000, 'backoff_ms', queue_set.backoff_ms::text, '0 .. 31536000000 (a year)');
    PERFORM pgwork._refuse_unless(coalesce(queue_set.backoff_cap_ms, 0) BETWEEN 0 AND 31536000000, 'backoff_cap_ms', queue_set.backoff_cap_ms::text, '0 .. 31536000000 (a year)');
    PERFORM pgwork._refuse_unless(coalesce(queue_set.retention_ms, 0) BETWEEN 0 AND 3153600000000, 'retention_ms', queue_set.retention_ms::text, '0 (keep nothing) .. 3153600000000');
    PERFORM pgwork._refuse_unless(coalesce(queue_set.max_bytes, 1) BETWEEN 1 AND 268435455, 'max_bytes', queue_set.max_bytes::text, '1 .. 268435455');
    UPDATE pgwork.queue t
       SET lease_ms = coalesce(queue_set.lease_ms, t.lease_ms),
           max_attempts = coalesce(queue_set.max_attempts, t.max_attempts),
           backoff_ms = coalesce(queue_set.backoff_ms, t.backoff_ms),
           backoff_cap_ms = coalesce(queue_set.backoff_cap_ms, t.backoff_cap_ms),
           retention_ms = coalesce(queue_set.retention_ms, t.retention_ms),
           max_bytes = coalesce(queue_set.max_bytes, t.max_bytes),
           notify = coalesce(queue_set.notify, t.notify),
           bulk = coalesce(queue_set.bulk, t.bulk),
           large_claims = coalesce(queue_set.bulk, t.large_claims), -- whoever asks for it has it at once
           learned_at = CASE WHEN queue_set.bulk IS NULL THEN t.learned_at ELSE clock_timestamp() END
     WHERE t.id = q.id
       AND num_nonnulls(queue_set.lease_ms, queue_set.max_attempts, queue_set.backoff_ms, queue_set.backoff_cap_ms,
                        queue_set.retention_ms, queue_set.max_bytes, queue_set.notify, queue_set.bulk) > 0;
    IF NOT FOUND THEN
        PERFORM pgwork._queue(queue_set.queue); -- it may be gone by now
    END IF;
END $$;

CREATE FUNCTION pgwork.queue_pause(queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(queue_pause.queue);
BEGIN
    UPDATE pgwork.queue t SET paused = true WHERE t.id = q.id AND NOT t.paused;
    IF NOT FOUND THEN
        PERFORM pgwork._queue(queue_pause.queue); -- it may be gone by now
    END IF;
END $$;

CREATE FUNCTION pgwork.queue_drain(queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(queue_drain.queue);
BEGIN
    UPDATE pgwork.queue t SET draining = true WHERE t.id = q.id AND NOT t.draining;
    IF NOT FOUND THEN
        PERFORM pgwork._queue(queue_drain.queue); -- it may be gone by now
    END IF;
END $$;

CREATE FUNCTION pgwork.queue_resume(queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q pgwork.queue := pgwork._queue(queue_resume.queue);
BEGIN
    UPDATE pgwork.queue t SET paused = false, draining = false WHERE t.id = q.id AND (t.paused OR t.draining);
    IF NOT FOUND THEN
        PERFORM pgwork._queue(queue_resume.queue); -- it may be gone by now
    END IF;
    PERFORM pgwork._wake(q.id, q.name, 256);
END $$;

-- What was so long ago was before then.
CREATE FUNCTION pgwork._before(older_than_ms bigint) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(older_than_ms, 0) BETWEEN 0 AND 3153600000000, 'older_than_ms', older_than_ms::text, '0 .. 3153600000000, or NULL for all');
    RETURN CASE WHEN older_than_ms > 0 THEN clock_timestamp() - older_than_ms * interval '1 ms' ELSE 'infinity' END;
END $$;

-- Deletes some jobs of one of these tables, in the order of an index, and tells where that ended. A place is in live_job lane * 2^58 + pos.
CREATE FUNCTION pgwork._purge(queue integer, place text, after bigint, batch bigint, before timestamptz, OUT n_rows bigint, OUT n_jobs bigint, OUT last bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    keyed bigint[];
    keys text[];
BEGIN
    IF place = 'live_job' THEN -- rows that a claim holds just now are skipped: they are as good as leased
        WITH d AS (
            DELETE FROM pgwork.live_job j
             WHERE j.ctid = ANY (ARRAY(SELECT t.ctid FROM pgwork.live_job t
                                        WHERE t.queue = _purge.queue AND (t.lane, t.pos) > ((after >> 58)::smallint, after & 288230376151711743)
                                          AND t.token IS NULL AND t.created_at < before
                                        ORDER BY t.lane, t.pos LIMIT batch FOR UPDATE SKIP LOCKED))
            RETURNING (j.lane::bigint << 58) + j.pos AS at, coalesce(j.id, j.pos) AS id, j.key, coalesce(j.jobs, 1) AS jobs
        )
        SELECT count(*), coalesce(sum(d.jobs), 0), max(d.at), array_agg(d.id) FILTER (WHERE d.key IS NOT NULL), array_agg(d.key) FILTER (WHERE d.key IS NOT NULL)
          INTO n_rows, n_jobs, last, keyed, keys FROM d;
    ELSE
        EXECUTE format('WITH d AS ('
            '    DELETE FROM pgwork.%1$I j'
            '     WHERE j.queue = $1 AND j.id = ANY (ARRAY(SELECT t.id FROM pgwork.%1$I t'
            '                                               WHERE t.queue = $1 AND t.id > $2 AND t.created_at < $4'
            '                                               ORDER BY t.id LIMIT $3 FOR UPDATE SKIP LOCKED))'
            '    RETURNING j.id, j.key'
            ') SELECT count(*), count(*), max(d.id), array_agg(d.id) FILTER (WHERE d.key IS NOT NULL), array_agg(d.key) FILTER (WHERE d.key IS NOT NULL) FROM d', place)
           INTO n_rows, n_jobs, last, keyed, keys USING queue, after, batch, before;
    END IF;
    IF keyed IS NOT NULL THEN
        PERFORM pgwork._free(queue, keyed, keys);
    END IF;
END $$;

-- Piece by piece. When a batch is full, the session notes how far it has come, as {queue, which table, place} in a custom setting: while vacuum is
-- held back the next call would walk over all that this one has deleted. A hint: who comes to the end begins once more.
CREATE FUNCTION pgwork.queue_purge(queue text, state text DEFAULT 'ready', batch bigint DEFAULT NULL, older_than_ms bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    places CONSTANT text[] := '{live_job,delayed_job,dead_job,done_job}';
    states CONSTANT text[] := '{ready,delayed,dead,done}';
    q pgwork.queue := pgwork._queue(queue_purge.queue);
    noted bigint[] := CASE WHEN current_setting('pgwork.purged', true) ~ '^[{][0-9]{1,9},[1-4],([0-9]{1,18}|[1-8][0-9]{18})[}]$'
                           THEN current_setting('pgwork.purged', true)::bigint[] END;
    before timestamptz;
    wanted bigint := batch;
    piece bigint;
    went record;
    gone bigint := 0;
BEGIN
    PERFORM pgwork._refuse_unless(state = 'all' OR state = ANY (states), 'state', state, 'ready, delayed, dead, done or all'),
            pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, '1 and up, or NULL for all');
    before := pgwork._before(older_than_ms);
    IF batch IS NULL OR noted[1] <> q.id THEN
        noted := NULL;
    END IF;
    <<over>>
    LOOP
        FOR i IN coalesce(noted[2], 1) .. 4 LOOP
            CONTINUE WHEN state NOT IN ('all', states[i]);
            SELECT CASE WHEN noted[2] = i THEN noted[3] ELSE 0 END AS last INTO went;
            LOOP
                piece := least(wanted, 10000);
                SELECT * INTO went FROM pgwork._purge(q.id, places[i], went.last, piece, before);
                gone := gone + went.n_jobs;
                wanted := wanted - went.n_rows;
                IF wanted = 0 THEN
                    PERFORM set_config('pgwork.purged', ARRAY[q.id, i, went.last]::text, false);
                    EXIT over;
                END IF;
                EXIT WHEN went.n_rows = 0; -- fewer than asked for may have been changed just now, and go on behind
            END LOOP;
        END LOOP;
        EXIT WHEN noted IS NULL;
        noted := NULL;
    END LOOP;
    PERFORM pgwork._refuse_outdated();
    RETURN gone;
END $$;

CREATE FUNCTION pgwork.queue_drop(queue text, force boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(queue_drop.queue);
BEGIN
    IF force IS NOT TRUE AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'a queue is not dropped at %: jobs that this transaction cannot see would go with it', current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported', HINT = 'drop it at READ COMMITTED, or pass force => true to lose them';
    END IF;
    -- The row first: an enqueue that reads it later finds no queue. One that read it earlier, and commits later,
    -- leaves jobs of a queue that is gone, which nobody sees; prune() deletes them. Hence: drain, wait, drop.
    DELETE FROM pgwork.queue t WHERE t.id = q.id;
    IF force IS NOT TRUE AND (EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = q.id)
                           OR EXISTS (SELECT FROM pgwork.pack j WHERE j.queue = q.id AND cardinality(j.ids) > -- else all have left
                                          (SELECT count(*) FROM pgwork.pack_out o WHERE o.queue = j.queue AND o.number = j.number))
                           OR EXISTS (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id)
                           OR EXISTS (SELECT FROM pgwork.dead_job j WHERE j.queue = q.id)) THEN
        RAISE EXCEPTION 'queue % still has jobs', quote_literal(q.name)
            USING ERRCODE = 'PW006', HINT = 'queue_purge() it first, or pass force => true to lose them';
    END IF;
    DELETE FROM pgwork.live_job j WHERE j.queue = q.id;
    DELETE FROM pgwork.pack j WHERE j.queue = q.id;
    DELETE FROM pgwork.pack_out j WHERE j.queue = q.id;
    DELETE FROM pgwork.delayed_job j WHERE j.queue = q.id;
    DELETE FROM pgwork.dead_job j WHERE j.queue = q.id;
    DELETE FROM pgwork.done_job j WHERE j.queue = q.id;
    DELETE FROM pgwork.unique_key j WHERE j.queue = q.id;
    DELETE FROM pgwork.operation j WHERE j.queue = q.id;
    DELETE FROM pgwork.survey j WHERE j.queue = q.id;
    PERFORM pgwork._refuse_outdated();
END $$;

-- missing_ok: whoever goes through all queues may come to one that was dropped since he began.
CREATE FUNCTION pgwork.depth(queue text, at_most bigint DEFAULT NULL, missing_ok boolean DEFAULT false, OUT ready bigint, OUT leased bigint,
    OUT delayed bigint, OUT dead bigint, OUT done bigint, OUT oldest_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue;
    packed bigint;
    seen record;
BEGIN
    SELECT * INTO q FROM pgwork.queue t WHERE t.name = depth.queue;
    IF NOT FOUND THEN
        IF missing_ok THEN
            RETURN;
        END IF;
        q := pgwork._queue(depth.queue);
    END IF;
    PERFORM pgwork._refuse_unless(coalesce(at_most, 1) > 0, 'at_most', at_most::text, '1 and up, or NULL for exact counts');
    SELECT least(coalesce(sum(s.n), 0), at_most)::bigint INTO packed
      FROM (SELECT cardinality(p.ids) - (SELECT count(*) FROM pgwork.pack_out o WHERE o.queue = p.queue AND o.number = p.number) AS n
              FROM pgwork.pack p WHERE p.queue = q.id LIMIT at_most) s;
    -- One scan from the front: leased jobs lie before the ready ones of their lane.
    SELECT coalesce(sum(coalesce(s.jobs, 1)) FILTER (WHERE s.token IS NULL), 0), packed + count(s.token) INTO ready, leased
      FROM (SELECT j.token, j.jobs FROM pgwork.live_job j WHERE j.queue = q.id ORDER BY j.lane, j.pos LIMIT at_most - packed) s;
    ready := least(ready, at_most - leased);
    SELECT count(*) INTO delayed FROM (SELECT FROM pgwork.delayed_job j WHERE j.queue = q.id LIMIT at_most) s;
    SELECT count(*) INTO dead FROM (SELECT FROM pgwork.dead_job j WHERE j.queue = q.id LIMIT at_most) s;
    SELECT count(*) INTO done FROM (SELECT FROM pgwork.done_job j WHERE j.queue = q.id LIMIT at_most) s;
    -- The head of each lane is its oldest. Nothing ready lies below the floors of the last survey, but for what transactions bring that
    -- were slow then, and what is to be swept (0004_marks.sql). A standby has no surveys: the table is unlogged.
    SELECT NULL::bigint[] AS floors, NULL::bigint AS low INTO seen;
    IF NOT pg_is_in_recovery() THEN
        SELECT s.floors, (SELECT min(low) FROM unnest(s.lows || s.froms) low) AS low INTO seen
          FROM pgwork.survey s WHERE s.queue = q.id ORDER BY s.period DESC LIMIT 1;
    END IF;
    SELECT greatest(0, (extract(epoch FROM clock_timestamp() - min(h.since)) * 1000)::bigint) INTO oldest_ms
      FROM generate_series(0, 19) l
     CROSS JOIN LATERAL (SELECT coalesce(j.lease_until, j.created_at) AS since FROM pgwork.live_job j
                          WHERE j.queue = q.id AND j.lane = l AND j.pos > coalesce(least(seen.floors[l + 1], seen.low), 0) AND j.token IS NULL
                          ORDER BY j.pos LIMIT 1) h;
    oldest_ms := coalesce(oldest_ms, 0);
    PERFORM pgwork._refuse_outdated();
END $$;

CREATE FUNCTION pgwork.setting(name text, value text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_is text;
BEGIN
    SELECT s.value INTO now_is FROM pgwork.setting s WHERE s.name = setting.name;
    IF NOT FOUND THEN
        PERFORM pgwork._refuse('name', setting.name, (SELECT string_agg(s.name, ', ' ORDER BY s.name) FROM pgwork.setting s));
    END IF;
    IF setting.value IS NOT NULL THEN
        IF setting.name = 'implicit_queues' THEN
            PERFORM pgwork._refuse_unless(setting.value IN ('on', 'off'), 'value', setting.value, 'on or off');
        ELSIF setting.name = 'compact_mb' THEN
            PERFORM pgwork._refuse_unless(CASE WHEN setting.value ~ '^[0-9]{1,9}$' THEN setting.value::bigint <= 100000000 END, 'value', setting.value, 'megabytes, 0 .. 100000000');
        ELSE
            PERFORM pgwork._refuse_unless(CASE WHEN setting.value ~ '^[0-9]{1,15}$' THEN setting.value::bigint <= 3153600000000 END, 'value', setting.value, 'milliseconds, 0 .. 3153600000000');
        END IF;
        UPDATE pgwork.setting s SET value = setting.value WHERE s.name = setting.name RETURNING s.value INTO now_is;
    END IF;
    RETURN now_is;
END $$;

-- The advisory lock keys of a queue: 'sleep', 'sleep group <slot / 16>' and 'sleep <slot>' are held shared by sleeping workers, 'wake <slot>' by
-- who is just notifying.
-- The hash stands alone, so that it is reckoned once, when a statement is planned; halved, so that no queue makes it overflow.
CREATE FUNCTION pgwork._lock(what text, queue integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (hashtextextended('pgwork.' || what, 0) >> 1) + queue;

-- Whether another session holds that lock: then it cannot be had, not even for an instant. One expression, which is inlined:
-- this is all that an enqueue has to do with sleepers while there are none.
CREATE FUNCTION pgwork._held(what text, queue integer) RETURNS boolean
LANGUAGE sql RETURN CASE WHEN pg_try_advisory_lock(pgwork._lock(what, queue)) THEN NOT pg_advisory_unlock(pgwork._lock(what, queue)) ELSE true END;

-- Where sleepers of a slot listen: pgwork_wake_<schema>, and _<slot> but for slot 0.
CREATE FUNCTION pgwork._channel(slot integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 'pgwork_wake_' || split_part('pgwork.', '.', 1) || CASE slot WHEN 0 THEN '' ELSE '_' || slot::text END;

-- Whether a notification may be sent. While a session that listens, of any database, keeps a transaction open, the server keeps all that has
-- been told since; when it has no room left, whoever notifies cannot commit.
CREATE FUNCTION pgwork._may_notify() RETURNS boolean
LANGUAGE sql RETURN pg_notification_queue_usage() < 0.9;

-- A hint for workers that sleep, delivered at commit, to as many as there are jobs. Sleepers have spread themselves over 256 slots,
-- each with a channel of its own: to wake more than one for a job costs more than the job. 16 slots are a group, so that one sleeper
-- among them all is soon found. NOTIFY takes a lock of the whole database at commit, so it is sent only when somebody sleeps, and by
-- one transaction per slot at a time. Never waits: whoever misses it is found by polling.
CREATE FUNCTION pgwork._wake(queue integer, name text, jobs bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first CONSTANT integer := random() * 256;
    part integer; -- the group
    slot integer;
BEGIN
    IF NOT pgwork._held('sleep', queue) OR NOT pgwork._may_notify() THEN
        RETURN;
    END IF;
    FOR i IN 0 .. 15 LOOP
        part := (first / 16 + i) & 15;
        CONTINUE WHEN NOT pgwork._held('sleep group ' || part, queue);
        FOR j IN 0 .. 15 LOOP
            slot := part * 16 + (first + j & 15);
            IF pgwork._held('sleep ' || slot, queue) AND pg_try_advisory_xact_lock(pgwork._lock('wake ' || slot, queue)) THEN
                PERFORM pg_notify(pgwork._channel(slot), name);
                jobs := jobs - 1;
                IF jobs <= 0 THEN
                    RETURN;
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Notes which priorities are in use. Never waits for a transaction that holds the queue's row: what is not
-- noted now is seen by a claim that looks from the start, and noted then.
CREATE FUNCTION pgwork._note(queue integer, used integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pgwork.queue t SET priorities = t.priorities | used
     WHERE t.ctid = (SELECT s.ctid FROM pgwork.queue s WHERE s.id = _note.queue AND s.priorities & used <> used FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- That there are bundles, before the first is made: a claim that knows of none passes over it. False: it could not be noted, with an old
-- snapshot or where somebody holds the row.
CREATE FUNCTION pgwork._note_bundles(queue integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN false;
    END IF;
    UPDATE pgwork.queue t SET bundles = true
     WHERE t.ctid = (SELECT s.ctid FROM pgwork.queue s WHERE s.id = _note_bundles.queue AND NOT s.bundles FOR NO KEY UPDATE SKIP LOCKED);
    RETURN FOUND OR EXISTS (SELECT FROM pgwork.queue s WHERE s.id = _note_bundles.queue AND s.bundles);
END $$;

-- Writes down whether claims are large, as the last one has taught that knew better (pgwork.lesson). It does not do so itself: until its
-- transaction ended, nobody could pause the queue. Where both kinds come this changes once a minute at most: each change is a version of
-- the queue's row, over which everybody walks while vacuum is held back.
CREATE FUNCTION pgwork._learn() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lesson CONSTANT bigint := pg_sequence_last_value('pgwork.lesson');
    are_large CONSTANT boolean := lesson & 1 = 1;
BEGIN
    IF lesson > 1 AND current_setting('transaction_isolation') = 'read committed' THEN
        UPDATE pgwork.queue t SET large_claims = are_large, learned_at = clock_timestamp()
         WHERE t.ctid = (SELECT s.ctid FROM pgwork.queue s
                          WHERE s.id = lesson >> 1 AND s.bulk AND s.large_claims <> are_large
                            AND clock_timestamp() NOT BETWEEN s.learned_at AND s.learned_at + interval '1 min'
                            FOR NO KEY UPDATE SKIP LOCKED);
        PERFORM setval('pgwork.lesson', 1); -- who taught something else meanwhile, or was not heard, will say it again
    END IF;
END $$;

COMMENT ON FUNCTION pgwork.queue_create(text, bigint, integer, bigint, bigint, bigint, integer, boolean, boolean) IS 'Makes a queue; when it is there, sets what is given.';
COMMENT ON FUNCTION pgwork.queue_set(text, bigint, integer, bigint, bigint, bigint, integer, boolean, boolean) IS 'Changes settings of a queue; NULL leaves one as it is.';
COMMENT ON FUNCTION pgwork.queue_pause(text) IS 'No claims until queue_resume(); enqueues go on.';
COMMENT ON FUNCTION pgwork.queue_drain(text) IS 'No enqueues until queue_resume(); claims go on.';
COMMENT ON FUNCTION pgwork.queue_resume(text) IS 'Undoes queue_pause() and queue_drain().';
COMMENT ON FUNCTION pgwork.queue_purge(text, text, bigint, bigint) IS 'Deletes jobs by state (ready, delayed, dead, done, all), never leased ones; at most batch rows, a bundle being one; all, or those enqueued longer than older_than_ms ago. How many jobs.';
COMMENT ON FUNCTION pgwork.queue_drop(text, boolean) IS 'Removes a queue; refuses while it has jobs unless forced. Drain it first: jobs whose transactions commit later are lost with it.';
COMMENT ON FUNCTION pgwork.depth(text, bigint, boolean) IS 'Counts by state, each (ready and leased together) at most at_most (NULL: exact), and for how long the oldest ready job has been ready. All NULL with missing_ok when there is no such queue.';
COMMENT ON FUNCTION pgwork.setting(text, text) IS 'Reads a setting of the schema, or sets it.';
