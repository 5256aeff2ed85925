-- 0007: what a reaper calls in a loop, and what an operator does with dead letters. Everything goes in bounded
-- batches, skips what others hold, and is harmless when several do it at once.

-- How far the looks at everything have come, of whatever session: the place / 1024, and in the last six bits how large the next window is, as a
-- power of two. It is a sequence, so that a look that is cancelled has left its trace.
CREATE UNLOGGED SEQUENCE pgwork.look AS bigint MINVALUE 0;

-- Jobs that cannot be moved, since somebody's trigger or constraint on a table of ours raises an error or a row is damaged, must keep no others
-- from it. They are noted, and left alone for longer and longer.
CREATE FUNCTION pgwork._rests(queue integer, id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pgwork.stuck_job s WHERE s.queue = _rests.queue AND s.id = _rests.id AND s.again_at > clock_timestamp());
END $$;

-- By who has just met the error. (Errors of class 22 quote a value.) Queue 0 stands for maintain() itself: its 1 is prune(), its 2 compact().
CREATE FUNCTION pgwork._note_stuck(queue integer, id bigint, state text, message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO pgwork.stuck_job AS s (queue, id, error, again_at)
    VALUES (queue, id, format('%s%s (SQLSTATE %s)', CASE WHEN queue = 0 THEN ('{"prune(): ","compact(): "}'::text[])[id::integer] END,
                              CASE WHEN state LIKE '22%' THEN 'the server refused a value' ELSE left(message, 500) END, state),
            clock_timestamp() + interval '1 s')
        ON CONFLICT ON CONSTRAINT stuck_job_pkey DO UPDATE
       SET error = excluded.error, tries = s.tries + 1, again_at = clock_timestamp() + least(1 << least(s.tries, 10), 600) * interval '1 s';
END $$;

-- Is an error one of the session, or one that may be over the next time? Then it is everybody's, and no job's.
CREATE FUNCTION pgwork._is_passing(state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN state ~ '^(25|40|53|55P03|57|58)';

-- Expired leases of one lane, between two places. Claims take places in order, so leased rows lie in front of the ready ones: the scan
-- ends at a chunk without a lease, unless it is asked for the whole lane. `first` is the first row there, for the next mark.
CREATE FUNCTION pgwork._expired(queue integer, lane integer, low bigint, high bigint, batch integer, whole boolean,
    OUT ids bigint[], OUT tokens uuid[], OUT first bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    chunk CONSTANT integer := 5000;
    after bigint := low;
    rows_seen bigint;
    leases bigint;
    first_pos bigint;
    last_pos bigint;
    places bigint[];
    more record;
    now_is timestamptz := clock_timestamp();
    any_stuck CONSTANT boolean := EXISTS (SELECT FROM pgwork.stuck_job s WHERE s.queue = _expired.queue);
BEGIN
    ids := '{}';
    tokens := '{}';
    LOOP
        SELECT count(*), count(s.token), min(s.pos), max(s.pos), array_agg(s.pos) FILTER (WHERE s.token IS NOT NULL AND s.lease_until < now_is)
          INTO rows_seen, leases, first_pos, last_pos, places
          FROM (SELECT j.pos, j.token, j.lease_until FROM pgwork.live_job j
                 WHERE j.queue = _expired.queue AND j.lane = _expired.lane AND j.pos > after AND j.pos <= high ORDER BY j.pos LIMIT chunk) s;
        first := coalesce(first, first_pos);
        IF places IS NOT NULL THEN
            -- Looked at again under the row's lock: a holder may have extended or completed meanwhile. Those that are just completing more
            -- than a batch must not hide what lies behind.
            SELECT array_agg(r.id) AS ids, array_agg(r.token) AS tokens INTO more
              FROM (SELECT coalesce(j.id, j.pos) AS id, j.token
                      FROM unnest(places) p (pos)
                     CROSS JOIN LATERAL (SELECT * FROM pgwork.live_job j
                                          WHERE j.queue = _expired.queue AND j.lane = _expired.lane AND j.pos = p.pos
                                            AND j.token IS NOT NULL AND j.lease_until < now_is
                                            AND NOT (any_stuck AND pgwork._rests(j.queue, coalesce(j.id, j.pos)))
                                            FOR UPDATE SKIP LOCKED) j
                     LIMIT batch - cardinality(ids)) r;
            ids := ids || more.ids;
            tokens := tokens || more.tokens;
        END IF;
        EXIT WHEN rows_seen < chunk OR leases = 0 AND NOT whole OR cardinality(ids) >= batch;
        after := last_pos;
    END LOOP;
END $$;

-- Packs with expired leases, and those that all jobs have left (see _clear()). `first` is the first one there, for the next mark.
CREATE FUNCTION pgwork._expired_packs(queue integer, low bigint, high bigint, batch integer, OUT ids bigint[], OUT tokens uuid[], OUT first bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_indexscan = on SET enable_hashjoin = on
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    now_is timestamptz := clock_timestamp();
    any_stuck CONSTANT boolean := EXISTS (SELECT FROM pgwork.stuck_job s WHERE s.queue = _expired_packs.queue);
    pack record;
    expired bigint[];
BEGIN
    SELECT min(p.number) INTO first FROM pgwork.pack p WHERE p.queue = _expired_packs.queue AND p.number > low AND p.number <= high;
    ids := '{}';
    tokens := '{}';
    FOR pack IN
        SELECT p.number, p.token, p.first_id, p.last_id, p.ids, p.ends
          FROM pgwork.pack p
         WHERE p.queue = _expired_packs.queue AND p.number >= first AND p.number <= high AND p.lease_until < now_is
         ORDER BY p.number FOR UPDATE SKIP LOCKED
    LOOP
        CONTINUE WHEN any_stuck AND pgwork._rests(queue, pack.number);
        BEGIN
            SELECT array_agg(u.id) INTO expired
              FROM (SELECT u.id FROM unnest(pack.ids, pack.ends) u (id, lease_end)
                     WHERE coalesce(u.lease_end, '-infinity') < now_is
                       AND NOT EXISTS (SELECT FROM pgwork.pack_out o WHERE o.queue = _expired_packs.queue AND o.number = pack.number AND o.id = u.id)
                       AND NOT (any_stuck AND pgwork._rests(queue, u.id))
                     LIMIT batch - cardinality(ids)) u;
        EXCEPTION WHEN assert_failure OR OTHERS THEN -- a damaged one, as in _take_back(): under its number, which is no job's
            IF pgwork._is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM pgwork._note_stuck(queue, pack.number, SQLSTATE, format('jobs %s to %s, claimed together: %s', pack.first_id, pack.last_id, SQLERRM));
            CONTINUE;
        END;
        IF expired IS NULL THEN
            PERFORM pgwork._clear(queue, ARRAY[pack.number]);
        ELSE
            ids := ids || expired;
            tokens := tokens || array_fill(pack.token, ARRAY[cardinality(expired)]);
        END IF;
        EXIT WHEN cardinality(ids) >= batch;
    END LOOP;
END $$;

-- Takes back jobs of expired leases. Lots that fail get smaller until the one that cannot be taken back stands alone.
CREATE FUNCTION pgwork._take_back(q pgwork.queue, ids bigint[], tokens uuid[], OUT returned bigint, OUT died bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    any_stuck CONSTANT boolean := EXISTS (SELECT FROM pgwork.stuck_job s WHERE s.queue = q.id);
    at integer := 1;
    size integer;
    taken record;
BEGIN
    returned := 0;
    died := 0;
    size := cardinality(ids);
    WHILE at <= cardinality(ids) LOOP
        size := least(size, cardinality(ids) - at + 1);
        BEGIN
            SELECT m.accepted, coalesce(cardinality(m.accepted), 0) AS n, m.died INTO taken
              FROM pgwork._redeem(q, ids[at : at + size - 1], tokens[at : at + size - 1], 'reap', NULL, NULL) m;
            IF any_stuck THEN
                DELETE FROM pgwork.stuck_job s WHERE s.queue = q.id AND s.id = ANY (taken.accepted);
            END IF;
            returned := returned + taken.n - taken.died;
            died := died + taken.died;
            at := at + size;
            size := 2 * size;
        EXCEPTION WHEN assert_failure OR OTHERS THEN
            IF pgwork._is_passing(SQLSTATE) THEN
                RAISE;
            ELSIF size > 1 THEN
                size := size / 2;
                CONTINUE;
            END IF;
            PERFORM pgwork._note_stuck(q.id, ids[at], SQLSTATE, SQLERRM);
            at := at + 1;
        END;
    END LOOP;
END $$;

-- Takes back what has expired above these places, one for each lane and the last for packs (NULL: not there), and up to `high`.
CREATE FUNCTION pgwork._reap(q pgwork.queue, lows bigint[], high bigint, batch bigint, whole boolean, OUT returned bigint, OUT died bigint, OUT firsts bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lot record;
    taken record;
BEGIN
    returned := 0;
    died := 0;
    firsts := array_fill(NULL::bigint, ARRAY[21]);
    FOR i IN 1 .. 21 LOOP
        CONTINUE WHEN lows[i] IS NULL;
        IF i = 21 THEN
            SELECT * INTO lot FROM pgwork._expired_packs(q.id, lows[i], high, (batch - returned - died)::integer);
        ELSE
            SELECT * INTO lot FROM pgwork._expired(q.id, i - 1, lows[i], high, (batch - returned - died)::integer, whole);
        END IF;
        firsts[i] := lot.first;
        IF lot.ids <> '{}' THEN
            SELECT * INTO taken FROM pgwork._take_back(q, lot.ids, lot.tokens);
            returned := returned + taken.returned;
            died := died + taken.died;
        END IF;
        EXIT WHEN returned + died >= batch;
    END LOOP;
END $$;

-- Not far behind where claims have come, for each lane, and for packs.
CREATE FUNCTION pgwork._behind(queue integer, issued bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(SELECT greatest(coalesce(s.heads[i], CASE WHEN i = 21 THEN issued END, 0) - 200000, 0)
                   FROM generate_series(1, 21) i
                   LEFT JOIN (SELECT s.heads FROM pgwork.survey s WHERE s.queue = _behind.queue ORDER BY s.period DESC LIMIT 1) s ON true
                  ORDER BY i);
END $$;

-- The priorities, bit by bit, of jobs whose holder died, above these places, one for each lane (NULL: from the start), and up to `high`.
CREATE FUNCTION pgwork._suspects(queue integer, lows bigint[], high bigint) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce((SELECT bit_or(1 << l / 2) FROM generate_series(0, 18, 2) l
                      CROSS JOIN LATERAL (SELECT FROM pgwork.live_job j
                                           WHERE j.queue = _suspects.queue AND j.lane = l AND j.pos > coalesce(lows[l + 1], 0) AND j.pos <= high
                                             AND j.token IS NULL AND j.flags & 2 <> 0
                                           LIMIT 1) j), 0);
END $$;

-- What lies behind is not found, or late: a lease behind a long stretch of ready rows, when a great batch of lower places committed after it was
-- claimed; and below the marks, which a session remembers where looks took long (a setting for each queue), to spare itself the remains of
-- all jobs before while vacuum is held back. So a session looks at everything once a second, if that costs less than a twentieth of
-- the time. That goes in windows of places, for as long as a second, and by whomever it is resumed; in the midst of a window, where queues are many, by
-- the same session only. Noted in a custom setting: [1] when, and [2] the cost, in ms; [3] when the last place drawn was [5], and [4] that before: marks
-- stay a second behind transactions that are about to commit; [6] 1: all places are one window, since there are few remains; [7] the last queue looked
-- at in the window [8].
CREATE FUNCTION pgwork.reap(queue text DEFAULT NULL, batch integer DEFAULT 1000, OUT returned bigint, OUT died bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    everywhere CONSTANT bigint := 9223372036854775807;
    issued CONSTANT bigint := coalesce(pg_sequence_last_value('pgwork.place'), 0);
    began timestamptz := clock_timestamp();
    now_ms CONSTANT bigint := extract(epoch FROM began) * 1000;
    last bigint[] := CASE WHEN current_setting('pgwork.reap', true) ~ '^[{][0-9]{1,17}(,[0-9]{1,18}){7}[}]$'
                          THEN current_setting('pgwork.reap', true)::bigint[] ELSE '{0,0,0,0,0,0,0,0}' END;
    look bigint;
    low bigint;
    high bigint;
    size integer;
    covers integer; -- no more than that, as a power of two
    most bigint;    -- cost in ms of a queue
    start bigint;
    cost bigint;
    circled boolean := false;
    cut boolean;    -- its second is over
    seen integer;   -- up to this queue it has looked in this window
    q pgwork.queue;
    lot record;
    noted bigint[];
    lows bigint[];
    behind bigint[];
    found_suspects integer; -- priorities, bit by bit
    any_bundle boolean;
BEGIN
    PERFORM pgwork._refuse_unless(batch BETWEEN 1 AND 100000, 'batch', batch::text, '1 .. 100000');
    IF queue IS NOT NULL THEN
        PERFORM pgwork._queue(reap.queue);
    END IF;
    returned := 0;
    died := 0;
    IF queue IS NULL AND now_ms NOT BETWEEN last[1] AND last[1] + greatest(1000, 20 * last[2]) THEN
        look := coalesce(pg_sequence_last_value('pgwork.look'), 40);
        size := least(look & 63, 40);
        low := (look >> 6) << 10;
        start := low;
        seen := CASE WHEN last[8] = look THEN last[7] ELSE 0 END;
        last[6] := 1; -- if there is nothing yet
        LOOP
            IF low >= issued THEN
                low := 0;
                circled := true;
            END IF;
            EXIT WHEN circled AND low >= start OR clock_timestamp() > began + interval '1 s';
            high := low + (1::bigint << size);
            IF high >= issued THEN
                high := everywhere;
            END IF;
            covers := floor(log(2, least(high, issued) - low + 1));
            PERFORM setval('pgwork.look', (low >> 10 << 6) + greatest(covers - 4, 16)); -- after a cancel: less at a time
            most := 0;
            cut := false;
            FOR q IN SELECT * FROM pgwork.queue t WHERE t.id > seen ORDER BY t.id LOOP
                cost := extract(epoch FROM clock_timestamp()) * 1000;
                IF low = 0 AND high = everywhere THEN -- no remains to be afraid of: thousands of queues, with jobs in a lane or two
                    SELECT array_agg(h.lane * 0 ORDER BY l.i) || low INTO lows
                      FROM generate_series(0, 19) l (i)
                      LEFT JOIN LATERAL (SELECT j.lane FROM pgwork.live_job j WHERE j.queue = q.id AND j.lane = l.i::smallint AND j.pos > low ORDER BY j.pos LIMIT 1) h ON true;
                ELSE
                    lows := array_fill(low, ARRAY[21]);
                END IF;
                SELECT * INTO lot FROM pgwork._reap(q, lows, high, batch - returned - died, true);
                -- What has come to lie below the marks, see below.
                found_suspects := CASE WHEN array_remove(lot.firsts, NULL) <> '{}' THEN pgwork._suspects(q.id, lows, high) ELSE 0 END;
                IF found_suspects & ~q.suspects <> 0 THEN
                    UPDATE pgwork.queue t SET suspects = t.suspects | found_suspects
                     WHERE t.ctid = (SELECT s.ctid FROM pgwork.queue s WHERE s.id = q.id AND found_suspects & ~s.suspects <> 0 FOR NO KEY UPDATE SKIP LOCKED);
                END IF;
                most := greatest(most, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - cost);
                returned := returned + lot.returned;
                died := died + lot.died;
                EXIT WHEN returned + died >= batch;
                seen := q.id;
                cut := clock_timestamp() > began + interval '1 s';
                EXIT WHEN cut;
            END LOOP;
            last[6] := (low = 0 AND high = everywhere AND most <= 500)::integer;
            IF cut AND most > 500 THEN
                size := greatest(covers - 1, 16);
                seen := 0;
            ELSIF returned + died < batch AND NOT cut THEN
                size := CASE WHEN most < 50 THEN least(size + 1, 40) WHEN most > 500 THEN greatest(covers - 1, 16) ELSE size END;
                low := high;
                seen := 0;
            END IF;
            look := ((CASE WHEN low >= issued THEN 0 ELSE low END) >> 10 << 6) + size;
            PERFORM setval('pgwork.look', look);
            EXIT WHEN returned + died >= batch OR cut;
        END LOOP;
        last[7:8] := ARRAY[seen, look]; -- this session goes on with the next queue, if no other one has gone on meanwhile
        IF returned + died < batch THEN
            last[1:2] := ARRAY[now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - now_ms];
        END IF;
    END IF;
    IF now_ms NOT BETWEEN last[3] AND last[3] + 1000 THEN
        last[3:5] := ARRAY[now_ms, last[5], issued];
    END IF;
    FOR q IN SELECT * FROM pgwork.queue t WHERE reap.queue IS NULL OR t.name = reap.queue ORDER BY t.id LOOP
        noted := nullif(current_setting('pgwork.reap_' || q.id, true), '');
        -- Of thousands most are idle: nothing to take back is in front, nor anything that the flags below speak of. But where there are
        -- remains, or may be, it looks properly, which knows where to begin.
        IF queue IS NULL AND last[6] = 1 AND noted IS NULL AND q.suspects = 0 AND NOT q.bundles THEN
            cost := extract(epoch FROM clock_timestamp()) * 1000000;
            CONTINUE WHEN NOT (EXISTS (SELECT FROM pgwork.pack p WHERE p.queue = q.id AND p.number > 0)
                               OR EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = q.id AND j.jobs IS NOT NULL)
                               OR EXISTS (SELECT FROM generate_series(0, 19) l
                                           CROSS JOIN LATERAL (SELECT j.token FROM pgwork.live_job j WHERE j.queue = q.id AND j.lane = l::smallint AND j.pos > 0 ORDER BY j.pos LIMIT 100) j
                                           WHERE q.priorities >> l / 2 & 1 = 1 AND (l & 1 = 0 OR j.token IS NOT NULL)))
                          AND extract(epoch FROM clock_timestamp()) * 1000000 < cost + 1000;
        END IF;
        IF returned + died < batch AND queue IS NOT NULL THEN
            SELECT * INTO lot FROM pgwork._reap(q, array_fill(0::bigint, ARRAY[21]), everywhere, batch - returned - died, true);
            returned := returned + lot.returned;
            died := died + lot.died;
        ELSIF returned + died < batch THEN
            -- Who does not know how far the remains reach begins not far behind the claims.
            behind := array_fill(0::bigint, ARRAY[21]);
            IF noted IS NULL AND last[6] = 0 THEN
                behind := pgwork._behind(q.id, issued);
            END IF;
            lows := ARRAY(SELECT CASE WHEN l.i = 20 OR q.priorities >> l.i / 2 & 1 = 1 THEN coalesce(noted[l.i + 1], behind[l.i + 1]) END
                            FROM generate_series(0, 20) l (i) ORDER BY l.i);
            cost := extract(epoch FROM clock_timestamp()) * 1000000;
            SELECT * INTO lot FROM pgwork._reap(q, lows, everywhere, batch - returned - died, false);
            cost := extract(epoch FROM clock_timestamp()) * 1000000 - cost;
            returned := returned + lot.returned;
            died := died + lot.died;
            IF returned + died < batch AND (noted IS NOT NULL OR cost > 1000) THEN
                IF cost > 100000 THEN -- one that is leased for hours must not hold the mark: it is left to the looks at everything
                    behind := pgwork._behind(q.id, issued);
                END IF;
                PERFORM set_config('pgwork.reap_' || q.id,
                    ARRAY(SELECT greatest(u.low, least(u.first - 1, last[4]), u.behind)
                            FROM unnest(lows, lot.firsts, behind) WITH ORDINALITY u (low, first, behind, i) ORDER BY u.i)::text, false);
            END IF;
        END IF;
        -- Claims that find anything else take a job of a dead holder only where this says that there are some. One may lie below the marks, of a
        -- reaper that has committed late. So it is not taken back before all is looked at, nor if it has only come to be said since we began; and
        -- who finds it said does not say it again, though it is just being taken back: for that one there are the looks at everything.
        found_suspects := pgwork._suspects(q.id, noted, everywhere);
        IF noted IS NOT NULL AND q.suspects & ~found_suspects <> 0 THEN
            found_suspects := found_suspects | pgwork._suspects(q.id, NULL, everywhere);
        END IF;
        -- Where more of them may come, that there are none is said only now and then: to say again that there are is each time an update for a producer,
        -- and to look for the first one is to walk over the remains of all that were there before.
        any_bundle := CASE WHEN q.bundles AND q.bulk AND random() > 0.002 THEN true
                           ELSE EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = q.id AND j.jobs IS NOT NULL) END;
        -- Not to wait for who holds the queue's row; the next round comes soon.
        UPDATE pgwork.queue t SET suspects = found_suspects | (t.suspects & ~q.suspects), bundles = any_bundle OR t.bundles AND NOT q.bundles
         WHERE t.ctid = (SELECT s.ctid FROM pgwork.queue s
                          WHERE s.id = q.id AND (s.suspects <> (found_suspects | (s.suspects & ~q.suspects)) OR s.bundles <> any_bundle AND (any_bundle OR q.bundles))
                            FOR NO KEY UPDATE SKIP LOCKED);
    END LOOP;
    IF queue IS NULL THEN
        PERFORM set_config('pgwork.reap', last::text, false);
    END IF;
END $$;

-- Delayed jobs become ready: at new places, in the order of their times. `used`: their priorities. (Under the settings of its callers.)
CREATE FUNCTION pgwork._promote(queue integer, ids bigint[], OUT n bigint, OUT used integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH t AS (
        DELETE FROM pgwork.delayed_job d USING (SELECT _promote.queue, u.id FROM unnest(ids) u (id) OFFSET 0) due
         WHERE d.queue = ANY (ARRAY[due.queue]) AND d.id = due.id RETURNING d.*
    ), i AS (
        INSERT INTO pgwork.live_job (lease_until, created_at, queue, lane, attempt, flags, max_attempts, lease_ms, id, kind, key, error, tags, payload, body)
        SELECT least(s.run_at, clock_timestamp()), s.created_at, s.queue, 2 * s.priority + 1, s.attempt, s.flags, s.max_attempts, s.lease_ms, s.id, s.kind, s.key, s.error,
               s.tags, s.payload, s.body
          FROM (SELECT * FROM t ORDER BY t.run_at, t.id OFFSET 0) s
        RETURNING lane
    )
    SELECT count(*), coalesce(bit_or(1 << (i.lane / 2)), 0) INTO n, used FROM i;
END $$;

-- Says that so many jobs became ready, of the priorities `used`.
CREATE FUNCTION pgwork._announce(q pgwork.queue, used integer, jobs bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF q.priorities & used <> used THEN
        PERFORM pgwork._note(q.id, used);
    END IF;
    IF jobs > 0 AND q.notify THEN
        PERFORM pgwork._wake(q.id, q.name, jobs);
    END IF;
END $$;

-- Like reap(), where that takes long it begins at what was still to come the last time, and looks at everything now and then. Noted in a custom
-- setting: when it did, from where on it looks in between (a second behind transactions that are about to commit), and the cost, in ms.
CREATE FUNCTION pgwork.promote(batch integer DEFAULT 1000, OUT promoted bigint, OUT next_ms bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue;
    n_part bigint;
    used integer;
    any_stuck boolean;
    size integer;
    ids bigint[];
    next_at timestamptz;
    now_is CONSTANT timestamptz := clock_timestamp(); -- a variable: with the function itself no index is used
    now_ms CONSTANT bigint := extract(epoch FROM now_is) * 1000;
    noted bigint[] := CASE WHEN current_setting('pgwork.promote', true) ~ '^[{][0-9]{1,17},[0-9]{1,17},[0-9]{1,17}[}]$'
                           THEN current_setting('pgwork.promote', true)::bigint[] END;
    everything CONSTANT boolean := (now_ms BETWEEN noted[1] AND noted[1] + greatest(1000, 20 * noted[3])) IS NOT TRUE;
    low CONSTANT timestamptz := CASE WHEN everything THEN '-infinity' ELSE to_timestamp(noted[2] / 1000.0) END;
    cost bigint;
BEGIN
    PERFORM pgwork._refuse_unless(batch BETWEEN 1 AND 100000, 'batch', batch::text, '1 .. 100000');
    promoted := 0;
    FOR q IN
        SELECT t.* FROM pgwork.queue t
         WHERE EXISTS (SELECT FROM pgwork.delayed_job d WHERE d.queue = t.id AND d.run_at > low AND d.run_at <= now_is OFFSET 0)
         ORDER BY t.id
    LOOP
        PERFORM pg_current_xact_id(); -- before the first place, see _put
        any_stuck := EXISTS (SELECT FROM pgwork.stuck_job s WHERE s.queue = q.id);
        size := batch - promoted;
        used := 0;
        n_part := 0;
        LOOP
            ids := ARRAY(SELECT d.id FROM pgwork.delayed_job d
                          WHERE d.queue = q.id AND d.run_at > low AND d.run_at <= now_is AND NOT (any_stuck AND pgwork._rests(d.queue, d.id))
                          ORDER BY d.run_at, d.id LIMIT least(size, batch - promoted - n_part) FOR UPDATE SKIP LOCKED);
            EXIT WHEN ids = '{}';
            BEGIN
                SELECT n_part + p.n, used | p.used INTO n_part, used FROM pgwork._promote(q.id, ids) p;
                IF any_stuck THEN
                    DELETE FROM pgwork.stuck_job s WHERE s.queue = q.id AND s.id = ANY (ids);
                END IF;
                EXIT WHEN cardinality(ids) < size OR promoted + n_part >= batch;
                size := 2 * size;
            EXCEPTION WHEN assert_failure OR OTHERS THEN -- as in _take_back()
                IF pgwork._is_passing(SQLSTATE) THEN
                    RAISE;
                ELSIF cardinality(ids) > 1 THEN
                    size := cardinality(ids) / 2;
                ELSE
                    PERFORM pgwork._note_stuck(q.id, ids[1], SQLSTATE, SQLERRM);
                    any_stuck := true;
                END IF;
            END;
        END LOOP;
        CONTINUE WHEN n_part = 0;
        promoted := promoted + n_part;
        PERFORM pgwork._announce(q, used, n_part);
        EXIT WHEN promoted >= batch;
    END LOOP;
    any_stuck := EXISTS (SELECT FROM pgwork.stuck_job s);
    cost := extract(epoch FROM clock_timestamp()) * 1000;
    SELECT min(d.run_at) INTO next_at
      FROM pgwork.queue t
     CROSS JOIN LATERAL (SELECT d.run_at FROM pgwork.delayed_job d
                          WHERE d.queue = t.id AND d.run_at > low AND NOT (any_stuck AND pgwork._rests(d.queue, d.id)) ORDER BY d.run_at LIMIT 1) d;
    IF next_at IS NOT NULL THEN -- greatest() would make 0 of a NULL: come back at once
        next_ms := greatest(0, ceil(extract(epoch FROM next_at - clock_timestamp()) * 1000))::bigint;
    END IF;
    cost := (extract(epoch FROM clock_timestamp()) * 1000)::bigint - cost;
    IF NOT everything OR cost > 5 THEN
        PERFORM set_config('pgwork.promote', ARRAY[CASE WHEN everything THEN now_ms ELSE noted[1] END,
            least((extract(epoch FROM next_at) * 1000)::bigint, now_ms) - 1000, CASE WHEN everything THEN cost ELSE noted[3] END]::text, false);
    END IF;
END $$;

-- While vacuum is held back, a look for what dropped queues have left walks over the remains of all that they had. When it took long,
-- the session's next one is put off for twenty times that; noted as {when, cost} in ms in a custom setting.
CREATE FUNCTION pgwork.prune(batch integer DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue;
    place text;
    pruned bigint := 0;
    before bigint;
    n_part bigint;
    now_is CONSTANT timestamptz := clock_timestamp(); -- a variable: with the function itself no index is used
    now_ms CONSTANT bigint := extract(epoch FROM now_is) * 1000;
    last bigint[] := CASE WHEN current_setting('pgwork.orphans', true) ~ '^[{][0-9]{1,17},[0-9]{1,17}[}]$'
                          THEN current_setting('pgwork.orphans', true)::bigint[] ELSE '{0,0}' END;
    op_ms bigint := (SELECT s.value::bigint FROM pgwork.setting s WHERE s.name = 'op_retention_ms');
BEGIN
    PERFORM pgwork._refuse_unless(batch BETWEEN 1 AND 100000, 'batch', batch::text, '1 .. 100000');
    FOR q IN SELECT * FROM pgwork.queue t ORDER BY t.id LOOP
        DELETE FROM pgwork.done_job j
         WHERE j.ctid = ANY (ARRAY(SELECT d.ctid FROM pgwork.done_job d
                                    WHERE d.queue = q.id AND d.finished_at < now_is - q.retention_ms * interval '1 ms'
                                    ORDER BY d.finished_at LIMIT batch - pruned FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n_part = ROW_COUNT;
        pruned := pruned + n_part;
        DELETE FROM pgwork.operation j
         WHERE j.ctid = ANY (ARRAY(SELECT d.ctid FROM pgwork.operation d
                                    WHERE d.queue = q.id AND d.at < now_is - op_ms * interval '1 ms'
                                    ORDER BY d.at LIMIT batch - pruned FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n_part = ROW_COUNT;
        pruned := pruned + n_part;
        DELETE FROM pgwork.unique_key j
         WHERE j.ctid = ANY (ARRAY(SELECT d.ctid FROM pgwork.unique_key d
                                    WHERE d.queue = q.id AND d.free_after < now_is
                                    ORDER BY d.free_after LIMIT batch - pruned FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS n_part = ROW_COUNT;
        pruned := pruned + n_part;
        EXIT WHEN pruned >= batch;
    END LOOP;
    IF pruned < batch THEN
        pruned := pruned + pgwork.table_prune((batch - pruned)::integer);
    END IF;
    DELETE FROM pgwork.stuck_job s -- nobody has come across it since
     WHERE s.ctid = ANY (ARRAY(SELECT d.ctid FROM pgwork.stuck_job d WHERE d.again_at < now_is - interval '1 hour' FOR UPDATE SKIP LOCKED));
    -- What producers committed after their queue was dropped, nobody sees any more. It lies between the ids of the queues that are there.
    -- One snapshot tells both: a queue may be committed together with its first jobs at any moment.
    IF pruned < batch AND now_ms NOT BETWEEN last[1] AND last[1] + (CASE WHEN last[2] > 50 THEN 20 * last[2] ELSE -1 END) THEN
        before := pruned;
        FOREACH place IN ARRAY '{live_job,pack,pack_out,delayed_job,dead_job,done_job,unique_key,operation,survey}'::text[] LOOP
            EXECUTE format('DELETE FROM pgwork.%1$I j'
                ' WHERE j.ctid = ANY (ARRAY(SELECT d.ctid'
                '     FROM (SELECT t.id AS low, lead(t.id) OVER (ORDER BY t.id) AS high'
                '             FROM (SELECT 0 AS id UNION ALL SELECT q.id FROM pgwork.queue q) t) g'
                '    CROSS JOIN LATERAL (SELECT d.ctid FROM pgwork.%1$I d'
                '                         WHERE d.queue > g.low AND d.queue < coalesce(g.high, 2147483647) LIMIT $1 FOR UPDATE SKIP LOCKED) d'
                '    WHERE g.high > g.low + 1 IS NOT FALSE LIMIT $1))', place) USING batch - pruned;
            GET DIAGNOSTICS n_part = ROW_COUNT;
            pruned := pruned + n_part;
        END LOOP;
        IF pruned = before THEN
            PERFORM set_config('pgwork.orphans', ARRAY[now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - now_ms]::text, false);
        END IF;
    END IF;
    RETURN pruned;
END $$;

-- Jobs leave their remains behind: two row versions and some hundred bytes each. Vacuum makes room of them, but not while somebody holds an
-- old snapshot: then a table grows by gigabytes within minutes, though what lives in it is some thousand rows. But a snapshot keeps row versions,
-- not files. So a table that is nearly all remains gets a new file, and what lives moves there. Places and tokens are in the rows, and stay as
-- they are; nobody can be in the midst of something, since that takes the table's strongest lock.

-- The tables that jobs pass through.
CREATE FUNCTION pgwork._passages() RETURNS regclass[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN '{pgwork.live_job,pgwork.pack,pgwork.pack_out,pgwork.delayed_job,pgwork.unique_key}';
END $$;

-- To a snapshot from before a table got its new file that table is empty. This refuses to tell a transaction with such a snapshot that a job is gone:
-- it sees the old file in the catalog, and works with the new one. (At READ COMMITTED each statement has a new snapshot, behind the table's lock.)
CREATE FUNCTION pgwork._refuse_outdated() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
       AND EXISTS (SELECT FROM pg_class c WHERE c.oid = ANY (pgwork._passages()) AND c.relfilenode <> pg_relation_filenode(c.oid)) THEN
        RAISE EXCEPTION 'could not serialize access: jobs were moved to a new file after this transaction''s snapshot'
            USING ERRCODE = 'serialization_failure', HINT = 'repeat the transaction';
    END IF;
END $$;

-- Is somebody dumping the database? pg_dump takes its snapshot first and its locks later: in between, a new file would make it dump a table
-- without rows.
CREATE FUNCTION pgwork._dumped() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_stat_clear_snapshot();
    RETURN EXISTS (SELECT FROM pg_stat_activity a WHERE a.application_name = 'pg_dump' AND a.datname = current_database());
END $$;

-- Moves what lives to a new file, unless it is more than `most` rows, or `most_bytes`: they go through memory. (`kept` says of which type they
-- are.) The first look counts, beside everybody else, and leaves marks in the rows that make the second one, under the lock, shorter. If even that
-- one takes longer than `most_ms`, nobody is locked out. A look reads the whole file, or by_index only what that still leads to: all that lives,
-- and what died since vacuum has been there.
CREATE FUNCTION pgwork._renew(place regclass, kept anyarray, most bigint, most_bytes bigint, most_ms bigint, by_index boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = on SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off SET enable_sort = off
SET synchronize_seqscans = off SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    lives text := format('SELECT j FROM %s j', place);
    row_bytes integer;
    bytes bigint := 0;
    live bigint := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE lock_not_available; -- what came after its snapshot would be lost
    END IF;
    IF by_index THEN -- each of these tables has one of all its rows that begins with the queue
        PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
        lives := lives || ' ORDER BY j.queue';
    END IF;
    FOR row_bytes IN EXECUTE format('SELECT pg_column_size(s.j) FROM (%s) s', lives) LOOP
        live := live + 1;
        bytes := bytes + row_bytes;
        IF live > most OR bytes > most_bytes THEN
            RAISE program_limit_exceeded;
        END IF;
    END LOOP;
    IF clock_timestamp() > began + most_ms * interval '1 ms' THEN
        RAISE program_limit_exceeded;
    END IF;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', place);
    EXECUTE format('SELECT array_agg(s.j) FROM (%s) s', lives) INTO kept;
    EXECUTE format('TRUNCATE %s', place);
    EXECUTE format('INSERT INTO %s SELECT * FROM unnest($1)', place) USING kept;
    IF pgwork._dumped() THEN -- it has come meanwhile
        RAISE lock_not_available;
    END IF;
END $$;

-- Transactions that are in a table just now, but for vacuum.
CREATE FUNCTION pgwork._inside(place regclass) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT l.virtualtransaction FROM pg_locks l
                  WHERE l.relation = place AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() -- a prepared one has none
                    AND l.mode <> 'ShareUpdateExclusiveLock'
                    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
END $$;

-- How full each of these tables is, as far as the server has counted, and how often vacuum has been through.
CREATE FUNCTION pgwork._fill() RETURNS TABLE (place regclass, bytes bigint, live bigint, dead bigint, visits bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT c, pg_total_relation_size(c), pg_stat_get_live_tuples(c), pg_stat_get_dead_tuples(c), pg_stat_get_vacuum_count(c) + pg_stat_get_autovacuum_count(c)
      FROM unnest(pgwork._passages()) c;
END $$;

-- Vacuum's own lock. It may be there already, in vain: if it is automatic, it gives way to who has waited for deadlock_timeout.
CREATE FUNCTION pgwork._take_vacuums_lock(place regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
BEGIN
    PERFORM set_config('lock_timeout', (500 + (SELECT s.setting::integer FROM pg_settings s WHERE s.name = 'deadlock_timeout'))::text, true);
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', place);
END $$;

-- When compact() may come again, whoever calls it: ms * 8, and how often it was in vain. A sequence, so that a call that is cancelled has left
-- its trace, too.
CREATE UNLOGGED SEQUENCE pgwork.compact_pause AS bigint MINVALUE 0;

-- One table at most, the largest that nobody stays in: its lock lasts until the transaction ends. To read 4 GB takes too long, so what has come to
-- that, while somebody stayed in it, is left to vacuum first: then little is to be read, however large the file. Up to there the file grows as long
-- as it is not had, and with it the time that the next look takes. So who came in vain comes again soon, when little is new to look at, and looks
-- for longer.
CREATE FUNCTION pgwork.compact(mb integer DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 AS $$
DECLARE
    most CONSTANT bigint := 500000; -- up to three seconds, if they are small: 64 MB
    began CONSTANT timestamptz := clock_timestamp();
    now_ms CONSTANT bigint := extract(epoch FROM began) * 1000;
    from_mb CONSTANT bigint := coalesce(mb, (SELECT nullif(s.value, '0')::bigint FROM pgwork.setting s WHERE s.name = 'compact_mb'));
    pause CONSTANT bigint := coalesce(pg_sequence_last_value('pgwork.compact_pause'), 0);
    times CONSTANT integer := pause & 7; -- that it came in vain since the last time that it did not
    again_ms bigint := 2000 << times;
    vain CONSTANT bigint := least(times + 1, 5); -- if it is once more
    place regclass;
    bytes bigint;
    swept boolean; -- vacuum has been through
    inside text[];
    stays boolean; -- somebody does
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(mb, 0) >= 0, 'mb', mb::text, '0 and up, or NULL: as the setting compact_mb says');
    IF mb IS NULL AND (pause >> 3) - now_ms BETWEEN 1 AND 600000 THEN
        RETURN NULL;
    END IF;
    FOR place, bytes, swept IN
        SELECT f.place, f.bytes, s.swept
          FROM pgwork._fill() f CROSS JOIN LATERAL (SELECT f.dead <= most AND f.visits > 0 AS swept) s
         WHERE f.bytes >= from_mb * 1048576 AND f.live <= most
           AND (mb IS NOT NULL OR CASE WHEN f.bytes < 4294967296 THEN f.dead >= 32 * f.live ELSE s.swept END)
         ORDER BY f.bytes DESC
    LOOP
        PERFORM setval('pgwork.compact_pause', (now_ms + again_ms << 3) + vain);
        inside := pgwork._inside(place);
        IF inside <> '{}' THEN
            PERFORM pg_sleep(0.1);
        END IF;
        stays := inside <> '{}' AND inside && pgwork._inside(place);
        EXIT WHEN NOT stays;
    END LOOP;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF stays THEN -- nobody was disturbed, so it comes soon again: when a long transaction ends, its remains go
        PERFORM setval('pgwork.compact_pause', (now_ms + 4000 << 3) + times);
        RETURN 0;
    ELSIF pgwork._dumped() THEN
        RETURN 0;
    END IF;
    PERFORM pgwork._take_vacuums_lock(place); -- who waits for this one waits alone; behind that of _renew() everybody does
    PERFORM set_config('lock_timeout', '100', true);
    EXECUTE format('SELECT pgwork._renew($1, NULL::%s[], $2, 67108864, $3, $4)', place)
      USING place, most, CASE WHEN mb IS NULL THEN 2000 << least(times, 2) END, swept;
    PERFORM setval('pgwork.compact_pause', now_ms + least(greatest(1000, 20 * extract(epoch FROM clock_timestamp() - began) * 1000), 600000)::bigint << 3);
    RETURN greatest(bytes - pg_total_relation_size(place), 0);
EXCEPTION WHEN lock_not_available OR deadlock_detected OR object_in_use OR program_limit_exceeded THEN -- in use: by a cursor of this session
    again_ms := least(greatest(again_ms, 5 * extract(epoch FROM clock_timestamp() - began) * 1000), 600000);
    PERFORM setval('pgwork.compact_pause', (now_ms + again_ms << 3) + vain);
    RETURN 0;
END $$;

-- Who has written to a table and stays keeps it from getting a new file, and holds back vacuum, too: but autovacuum comes as often as it may, and
-- reads gigabytes from the disk each time, to remove nothing. So when a visit was in vain, and somebody like that was there from before its
-- beginning, the next ones are sent away until he is gone, for half an hour at most. (A VACUUM by hand does not give way, and is left
-- alone.) What is known of the largest table is noted in a custom setting: how often vacuum has been through, how many rows were dead at the last
-- look, who was `inside` when it had last been through, and whose being there makes it come in vain.
CREATE FUNCTION pgwork._send_vacuum_away(from_bytes bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_ms CONSTANT bigint := extract(epoch FROM clock_timestamp()) * 1000;
    noted jsonb;
    t record;
    writers text[];
BEGIN
    SELECT f.place, f.visits, f.dead INTO t FROM pgwork._fill() f WHERE f.bytes >= from_bytes ORDER BY f.bytes DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    BEGIN
        noted := nullif(current_setting('pgwork.visits', true), '')::jsonb;
    EXCEPTION WHEN data_exception THEN
        NULL;
    END;
    writers := pgwork._writers(t.place);
    IF noted->>'place' IS DISTINCT FROM t.place::text THEN
        noted := jsonb_build_object('place', t.place, 'visits', t.visits, 'inside', '{}'::text[], 'in_vain', '{}'::text[], 'next_ms', 0);
    ELSIF t.visits <> (noted->'visits')::bigint THEN
        noted := noted || jsonb_build_object('visits', t.visits, 'inside', writers, 'until_ms', now_ms + 1800000,
                                             'in_vain', ARRAY(SELECT w FROM unnest(writers) w
                                                               WHERE noted->'inside' ? w AND t.dead > (noted->'dead')::bigint / 2));
    END IF;
    noted := noted || jsonb_build_object('dead', t.dead);
    PERFORM set_config('pgwork.visits', noted::text, false);
    IF (noted->'in_vain' ?| writers AND now_ms BETWEEN (noted->'next_ms')::bigint AND (noted->'until_ms')::bigint) IS NOT TRUE THEN
        RETURN false;
    END IF;
    PERFORM pgwork._take_vacuums_lock(t.place);
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    PERFORM set_config('pgwork.visits', (noted || jsonb_build_object('next_ms', now_ms + 60000))::text, false);
    RETURN false;
END $$;

-- Jobs that could not be taken back, for who reads the log: each once, as many at a time as a line there has room for, which is cut at 1 KB.
CREATE FUNCTION pgwork._tell_stuck(OUT news text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pgwork.stuck_job s WHERE NOT s.told) THEN
        WITH untold AS (
            SELECT s.queue, s.id, CASE WHEN s.queue = 0 THEN s.error WHEN q.id IS NOT NULL THEN format('job %s of queue %L: %s', s.id, q.name, s.error) END AS line
              FROM pgwork.stuck_job s LEFT JOIN pgwork.queue q ON q.id = s.queue
             WHERE NOT s.told ORDER BY s.queue, s.id LIMIT 20 FOR UPDATE OF s SKIP LOCKED
        ), fit AS (
            SELECT * FROM (SELECT u.*, row_number() OVER w AS n, sum(octet_length(u.line) + 2) OVER w AS bytes FROM untold u WINDOW w AS (ORDER BY u.queue, u.id)) u
             WHERE u.n = 1 OR coalesce(u.bytes, 0) <= 1000
        ), noted AS (
            UPDATE pgwork.stuck_job s SET told = true FROM fit f WHERE s.queue = f.queue AND s.id = f.id
        )
        SELECT string_agg(f.line, '; ' ORDER BY f.queue, f.id) INTO news FROM fit f;
    END IF;
END $$;

-- The sequences of hints are not in the WAL. A standby that takes over before its first checkpoint since they were made has empty files for
-- them (PostgreSQL 15 to 18 keep what it has received of them in memory, and copy the files), and no claim or look succeeds. Then they are made anew.
CREATE FUNCTION pgwork._mend_hints() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
    mark text;
BEGIN
    PERFORM pg_sequence_last_value('pgwork.mark'), pg_sequence_last_value('pgwork.lesson'), pg_sequence_last_value('pgwork.look'),
            pg_sequence_last_value('pgwork.compact_pause');
EXCEPTION WHEN internal_error THEN -- bad magic number in sequence
    PERFORM pg_advisory_xact_lock(pgwork._lock('mend', 0)); -- one after the other
    mark := pg_get_functiondef('pgwork._mark'::regproc); -- which depends on one of them
    CREATE OR REPLACE FUNCTION pgwork._mark(queue bigint) RETURNS bigint LANGUAGE sql RETURN NULL::bigint;
    FOR s IN
        SELECT c.oid::regclass AS name, q.seqmin FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid
         WHERE c.relnamespace = split_part('pgwork.', '.', 1)::regnamespace AND c.relpersistence = 'u'
    LOOP
        EXECUTE format('DROP SEQUENCE %1$s; CREATE UNLOGGED SEQUENCE %1$s MINVALUE %2$s', s.name, s.seqmin);
    END LOOP;
    EXECUTE mark;
END $$;

-- One round of everything that is due. A session prunes and compacts once a second at most, and looks for
-- expired leases four times a second; delayed jobs each time.
CREATE FUNCTION pgwork.maintain(batch integer DEFAULT 1000, OUT reaped bigint, OUT died bigint, OUT promoted bigint, OUT pruned bigint, OUT next_ms bigint,
    OUT stuck text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint;
    began_ms bigint;
    -- of promote(), reap() and prune(): when it came last, what that took, but for a ms for each job that it found, and what the one before took;
    -- when compact() came last
    last_ms bigint[] := CASE WHEN current_setting('pgwork.upkeep', true) ~ '^[{][0-9]{1,17}(,[0-9]{1,17}){9}[}]$'
                             THEN current_setting('pgwork.upkeep', true)::bigint[] ELSE '{0,0,0,0,0,0,0,0,0,0}' END;
BEGIN
    promoted := 0;
    reaped := 0;
    died := 0;
    pruned := 0;
    PERFORM pgwork._mend_hints();
    -- With thousands of queues each takes its time, again and again. So a tenth of all time is for it, or a twentieth, within limits.
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;
    next_ms := last_ms[1] + least(10 * least(last_ms[2], last_ms[3]), 1000) - now_ms;
    IF now_ms < last_ms[1] OR next_ms <= 0 THEN
        SELECT p.promoted, p.next_ms INTO promoted, next_ms FROM pgwork.promote(batch) p;
        began_ms := now_ms;
        now_ms := extract(epoch FROM clock_timestamp()) * 1000;
        last_ms[1:3] := ARRAY[began_ms, greatest(now_ms - began_ms - promoted, 0), last_ms[2]];
    END IF;
    IF now_ms NOT BETWEEN last_ms[4] AND last_ms[4] + greatest(250, least(10 * least(last_ms[5], last_ms[6]), 10000)) THEN
        SELECT r.returned, r.died INTO reaped, died FROM pgwork.reap(NULL, batch) r;
        began_ms := now_ms;
        now_ms := extract(epoch FROM clock_timestamp()) * 1000;
        last_ms[4:6] := ARRAY[CASE WHEN reaped + died < batch THEN began_ms ELSE 0 END, greatest(now_ms - began_ms - reaped - died, 0), last_ms[5]];
        stuck := pgwork._tell_stuck();
    END IF;
    -- Somebody's trigger or constraint, or a damaged row, may make these two fail; jobs and schedules must not wait for that. As in _take_back().
    IF now_ms NOT BETWEEN last_ms[7] AND last_ms[7] + greatest(1000, least(20 * least(last_ms[8], last_ms[9]), 60000)) THEN
        BEGIN
            IF NOT pgwork._rests(0, 1) THEN
                pruned := pgwork.prune(batch);
            END IF;
        EXCEPTION WHEN assert_failure OR OTHERS THEN
            IF pgwork._is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM pgwork._note_stuck(0, 1, SQLSTATE, SQLERRM);
        END;
        PERFORM pgwork._learn();
        began_ms := now_ms;
        now_ms := extract(epoch FROM clock_timestamp()) * 1000;
        last_ms[7:9] := ARRAY[CASE WHEN pruned < batch THEN began_ms ELSE 0 END, greatest(now_ms - began_ms - pruned, 0), last_ms[8]];
    END IF;
    -- The last one, since it locks others out; and rather when nothing waits for this round to be committed.
    IF now_ms NOT BETWEEN last_ms[10] AND last_ms[10] + (CASE WHEN greatest(promoted, reaped, died, pruned) = 0 THEN 1000 ELSE 10000 END) THEN
        BEGIN
            IF NOT pgwork._rests(0, 2) THEN
                PERFORM pgwork._send_vacuum_away(1073741824); -- it may wait, so before compact() locks anybody out
                PERFORM pgwork.compact();
            END IF;
        EXCEPTION WHEN assert_failure OR OTHERS THEN
            IF pgwork._is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM pgwork._note_stuck(0, 2, SQLSTATE, SQLERRM);
        END;
        last_ms[10] := now_ms;
    END IF;
    PERFORM set_config('pgwork.upkeep', last_ms::text, false);
    IF greatest(reaped, promoted, pruned) >= batch THEN
        next_ms := 0;
    ELSE
        next_ms := greatest(1, least(next_ms, 250)); -- NULL: nothing is delayed
    END IF;
END $$;

CREATE FUNCTION pgwork.beat(role text, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    PERFORM pgwork._refuse_unless(octet_length(role) BETWEEN 1 AND 64, 'role', role, '1 to 64 bytes');
    PERFORM pgwork._refuse_unless(octet_length(name) BETWEEN 1 AND 255, 'name', name, '1 to 255 bytes');
    -- A reaper calls this many times a second; to write it down every five seconds is enough.
    IF EXISTS (SELECT FROM pgwork.beat b WHERE b.role = beat.role AND b.name = beat.name AND b.pid = pg_backend_pid()
                  AND b.at BETWEEN clock_timestamp() - interval '5 s' AND clock_timestamp()) THEN
        RETURN;
    END IF;
    DELETE FROM pgwork.beat b WHERE b.at < clock_timestamp() - interval '1 day';
    INSERT INTO pgwork.beat AS b (role, name, pid, at) VALUES (role, name, pg_backend_pid(), clock_timestamp())
    ON CONFLICT ON CONSTRAINT beat_pkey DO UPDATE SET pid = excluded.pid, at = excluded.at;
END $$;

CREATE FUNCTION pgwork.redrive(queue text, ids bigint[] DEFAULT NULL, kind text DEFAULT NULL, batch bigint DEFAULT NULL,
    older_than_ms bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(redrive.queue);
    before timestamptz := pgwork._before(older_than_ms);
    moved bigint;
    used integer;
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, '1 and up, or NULL for all');
    PERFORM pg_current_xact_id(); -- before the first place, see _put
    WITH d AS MATERIALIZED (
        SELECT j.id FROM pgwork.dead_job j
         WHERE j.queue = q.id AND (redrive.ids IS NULL OR j.id = ANY (redrive.ids)) AND (redrive.kind IS NULL OR j.kind = redrive.kind) AND j.died_at < before
         ORDER BY j.id LIMIT batch FOR UPDATE SKIP LOCKED
    ), t AS (
        DELETE FROM pgwork.dead_job j USING d WHERE j.queue = q.id AND j.id = d.id RETURNING j.*
    ), n AS (
        -- Attempts start afresh; a unique key stays behind: it may belong to another job by now.
        INSERT INTO pgwork.live_job (lease_until, created_at, queue, lane, max_attempts, lease_ms, id, kind, error, tags, payload, body)
        SELECT clock_timestamp(), s.created_at, s.queue, 2 * s.priority + 1, s.max_attempts, s.lease_ms, s.id, s.kind, s.error, s.tags, s.payload, s.body
          FROM (SELECT * FROM t ORDER BY t.id OFFSET 0) s
        RETURNING lane
    )
    SELECT count(*), coalesce(bit_or(1 << (n.lane / 2)), 0) INTO moved, used FROM n;
    PERFORM pgwork._announce(q, used, moved);
    RETURN moved;
END $$;

-- In the order of the ids, from after_id on to last_id: so who does this piece by piece meets no job twice, however soon it fails again.
CREATE FUNCTION pgwork.reschedule(queue text, ids bigint[] DEFAULT NULL, kind text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    delay_ms bigint DEFAULT NULL, batch bigint DEFAULT NULL, after_id bigint DEFAULT NULL, OUT moved bigint, OUT last_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q pgwork.queue := pgwork._queue(reschedule.queue);
    due CONSTANT timestamptz := pgwork._due(run_at, delay_ms); -- NULL: at once
    low CONSTANT bigint := coalesce(after_id, 0);
    chosen bigint[];
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, '1 and up, or NULL for all'),
            pgwork._refuse_unless(low >= 0, 'after_id', after_id::text, '0 and up, or NULL');
    IF ids IS NULL THEN
        chosen := ARRAY(SELECT d.id FROM pgwork.delayed_job d
                         WHERE d.queue = q.id AND d.id > low AND (reschedule.kind IS NULL OR d.kind = reschedule.kind)
                         ORDER BY d.id LIMIT batch FOR UPDATE SKIP LOCKED); -- locked: it is just becoming ready, or is cancelled
    ELSE
        chosen := ARRAY(SELECT d.id FROM (SELECT DISTINCT q.id AS queue, u AS id FROM unnest(ids) u WHERE u > low ORDER BY u OFFSET 0) u
                         CROSS JOIN LATERAL (SELECT d.id FROM pgwork.delayed_job d
                                              WHERE d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id AND (reschedule.kind IS NULL OR d.kind = reschedule.kind)
                                                FOR UPDATE SKIP LOCKED) d
                         LIMIT batch);
    END IF;
    PERFORM pgwork._refuse_outdated();
    moved := cardinality(chosen);
    last_id := chosen[moved];
    IF moved = 0 THEN
        RETURN;
    END IF;
    DELETE FROM pgwork.stuck_job s WHERE s.queue = q.id AND s.id = ANY (chosen);
    IF due > clock_timestamp() THEN
        UPDATE pgwork.delayed_job d SET run_at = due FROM (SELECT q.id AS queue, u AS id FROM unnest(chosen) u OFFSET 0) u
         WHERE d.queue = ANY (ARRAY[u.queue]) AND d.id = u.id;
        RETURN;
    END IF;
    PERFORM pg_current_xact_id(); -- before the first place, see _put
    PERFORM pgwork._announce(q, p.used, moved) FROM pgwork._promote(q.id, chosen) p;
END $$;

CREATE FUNCTION pgwork.dead_purge(queue text, older_than_ms bigint DEFAULT NULL, batch bigint DEFAULT NULL, ids bigint[] DEFAULT NULL,
    kind text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    q pgwork.queue := pgwork._queue(dead_purge.queue);
    before timestamptz := pgwork._before(older_than_ms); -- a variable: with the function itself no index is used
    gone bigint;
BEGIN
    PERFORM pgwork._refuse_unless(coalesce(batch, 1) > 0, 'batch', batch::text, '1 and up, or NULL for all');
    DELETE FROM pgwork.dead_job j
     WHERE j.ctid = ANY (ARRAY(SELECT d.ctid FROM pgwork.dead_job d
                                WHERE d.queue = q.id AND d.died_at < before
                                  AND (dead_purge.ids IS NULL OR d.id = ANY (dead_purge.ids)) AND (dead_purge.kind IS NULL OR d.kind = dead_purge.kind)
                                ORDER BY d.died_at LIMIT batch FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

COMMENT ON FUNCTION pgwork.reap(text, integer) IS 'Takes jobs of expired leases back: ready again (returned), or dead letters when their attempts are used up (died).';
COMMENT ON FUNCTION pgwork.promote(integer) IS 'Makes delayed jobs ready whose time has come; next_ms: until the next one, NULL: none.';
COMMENT ON FUNCTION pgwork.prune(integer) IS 'Deletes what is no longer kept: finished jobs after their retention, operation ids, unique keys whose period is over.';
COMMENT ON FUNCTION pgwork.compact(integer) IS 'Gives a new file to the largest table of mb or more that is nearly all remains of jobs, and that nobody stays in, as vacuum cannot while an old snapshot is held. Bytes given back; 0: not now, others are in each; NULL: there is none. Its lock ends with the transaction: call it in one of its own.';
COMMENT ON FUNCTION pgwork.maintain(integer) IS 'promote(), reap(), prune() and compact() as far as each is due; call it again after next_ms, each time in a transaction of its own. stuck: jobs that could not be taken back, and prune() or compact() if it fails, told once.';
COMMENT ON FUNCTION pgwork.beat(text, text) IS 'A sign of life of a reaper, for the doctor.';
COMMENT ON FUNCTION pgwork.redrive(text, bigint[], text, bigint, bigint) IS 'Dead letters back to ready with a fresh count of attempts: by id, by kind, or all; at most batch; those that died longer than older_than_ms ago.';
COMMENT ON FUNCTION pgwork.reschedule(text, bigint[], text, timestamptz, bigint, bigint, bigint) IS 'Gives delayed jobs another time: by id, of a kind, or all; run_at, or delay_ms from now, or at once. Attempts stay as they are. At most batch, in the order of their ids from after_id on; last_id: the last of them.';
COMMENT ON FUNCTION pgwork.dead_purge(text, bigint, bigint, bigint[], text) IS 'Deletes dead letters: by id, by kind, or all; at most batch; those that died longer than older_than_ms ago.';
