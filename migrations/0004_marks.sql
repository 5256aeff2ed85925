-- 0004: low-water marks, where claims begin.
--
-- Finished jobs leave dead tuples behind. VACUUM removes them, but not while an old snapshot is held. A claim that
-- starts at the beginning of the index then reads millions of dead entries before it finds a job. So the reaper keeps
-- one low-water mark per queue and lane: no job up to the mark is ready. Claims start there.
--
-- Why no job is missed. A position is drawn before its job commits:
--
--     A: draws position 10                                  commits
--     B:                     draws 11, commits
--     worker:                            claims 11
--     reaper:                                  moves the mark to 11?
--
-- Then job 10 would never be found. So the reaper asks which transactions may still own a position below.
--
--   1. A transaction gets its id, then the lock of live_job that every write needs, then its first position.
--   2. A tick reads `issued`, the last position drawn. Then it reads `writers`, the transactions that hold that lock.
--      So a transaction that owns a position up to `issued` is a writer, or is over.
--   3. Then it looks at the jobs, with a snapshot of its own. It sees all jobs of transactions that were over in 2.
--   4. A mark moves up to the last tick's `issued` at most, and stops before the first job that is ready. So it can
--      only pass jobs of transactions that were writers at the last tick, and still are: the `slow` ones. Rows that a
--      slow transaction holds (claimed, and may roll back) count as its own.
--   5. For each slow transaction the ledger keeps the marks as they were before it was slow. When it is over, the
--      next ticks look once between these and the marks of now, a million positions each. What is ready there is a
--      late commit. It gets a range of its own, in which claims look first; the mark stays where it is. A range ends
--      when nothing in it is ready.
--
-- So marks only move up. A job below a mark is in a range, or belongs to a slow transaction and lies above the marks
-- that the ledger keeps for it.
--
-- What it costs: a few index probes per queue and tick, ten ticks a second while something moves. A claim reads its
-- queue's ranges with one probe; its session remembers for 200 ms where its last claim began.
-- Limits: without a reaper the marks stand still. Then claims slow down while vacuum is held back, and late commits of
-- transactions that were slow at the last tick wait until a reaper comes. No tick at REPEATABLE READ and above.
-- A savepoint that was released is not in pg_locks: the mark waits before rows that were claimed in it.

-- The newest entry of a queue. Without one, its ranges are all lanes: first those that are not quarantined.
CREATE FUNCTION pgwork._mark(queue integer) RETURNS pgwork.mark
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE m pgwork.mark;
BEGIN
    SELECT * INTO m FROM pgwork.mark t WHERE t.queue = _mark.queue ORDER BY t.version DESC LIMIT 1;
    IF NOT FOUND THEN
        m := (queue, 0, '{1,3,5,7,9,11,13,15,17,19,0,2,4,6,8,10,12,14,16,18}', array_fill(0::bigint, ARRAY[20]),
              array_fill(9223372036854775807, ARRAY[20]), 10, array_fill(0::bigint, ARRAY[20]),
              array_fill(0::bigint, ARRAY[30]), '{}', '{}', '{}');
    END IF;
    RETURN m;
END $$;

-- The ids of transactions that have written to a table or locked rows of it, or are about to. By backend: while a
-- transaction is being prepared, its locks belong to two virtual transactions.
CREATE FUNCTION pgwork._writers(place regclass) RETURNS xid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT unnest(array_agg(l.transactionid)
                                 FILTER (WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'))
                   FROM pg_locks l
                  GROUP BY split_part(l.virtualtransaction, '/', 1)
                 HAVING bool_or(l.relation = place AND l.mode IN ('RowExclusiveLock', 'RowShareLock')
                                AND l.database = (SELECT d.oid FROM pg_database d
                                                   WHERE d.datname = current_database())));
END $$;

-- The marks and floors that a queue had at a tick.
CREATE FUNCTION pgwork._marks_at(m pgwork.mark, version bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE i integer := (SELECT max(f.i) FROM unnest(m.froms) WITH ORDINALITY f (at, i) WHERE f.at <= version);
BEGIN
    RETURN CASE WHEN m.version <= version THEN m.marks || m.floors
                ELSE coalesce(m.lows[50 * i - 49:50 * i], array_fill(0::bigint, ARRAY[50])) END;
END $$;

-- What the next entry keeps of earlier ones: one for each of these ticks.
CREATE FUNCTION pgwork._history(m pgwork.mark, seen bigint[], OUT froms bigint[], OUT lows bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    froms := ARRAY(SELECT DISTINCT CASE WHEN m.version <= s THEN m.version
                                        ELSE (SELECT max(f) FROM unnest(m.froms) f WHERE f <= s) END
                     FROM unnest(seen) s ORDER BY 1);
    lows := ARRAY(SELECT l.low FROM unnest(froms) WITH ORDINALITY f (at, i)
                   CROSS JOIN LATERAL unnest(pgwork._marks_at(m, f.at)) WITH ORDINALITY l (low, i) ORDER BY f.i, l.i);
END $$;

-- Late commits between two marks of each lane: ranges in which their rows lie, as tight as twenty of them can be.
CREATE FUNCTION pgwork._late(queue integer, lows bigint[], marks bigint[])
RETURNS TABLE (lane smallint, start bigint, stop bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH rows AS ( -- what lies behind the first ten thousand of a lane is one range more
        SELECT l.lane, j.pos, CASE WHEN j.i = 10000 THEN l.mark ELSE greatest(j.pos, j.last_id) END AS until
          FROM (SELECT (i - 1)::smallint AS lane, low, mark FROM unnest(lows, marks) WITH ORDINALITY u (low, mark, i)
                 WHERE low < mark) l
         CROSS JOIN LATERAL (SELECT j.*, row_number() OVER (ORDER BY j.pos) AS i
                               FROM (SELECT j.pos, j.last_id FROM pgwork.live_job j
                                      WHERE j.queue = _late.queue AND j.lane = l.lane AND j.pos > l.low
                                        AND j.pos <= l.mark AND j.token IS NULL
                                      ORDER BY j.pos LIMIT 10000) j) j
    ), parts AS ( -- a new range begins behind a gap
        SELECT r.lane, r.pos, r.until, sum(r.gap::integer) OVER (PARTITION BY r.lane ORDER BY r.pos) AS part
          FROM (SELECT r.*, r.pos - lag(r.pos) OVER w
                            > greatest(1000, (max(r.pos) OVER l - min(r.pos) OVER l) / 20) IS TRUE AS gap
                  FROM rows r WINDOW w AS (PARTITION BY r.lane ORDER BY r.pos), l AS (PARTITION BY r.lane)) r
    )
    SELECT p.lane, min(p.pos) - 1, max(p.until) FROM parts p GROUP BY p.lane, p.part;
END $$;

-- By lane, above these floors and up to there: the first row of all.
CREATE FUNCTION pgwork._first_rows(queue integer, floors bigint[], tops bigint[] DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN ARRAY(SELECT (SELECT j.pos FROM pgwork.live_job j
                          WHERE j.queue = _first_rows.queue AND j.lane = (f.i - 1)::smallint AND j.pos > f.floor
                            AND j.pos <= coalesce(f.top, 9223372036854775807)
                          ORDER BY j.pos LIMIT 1)
                   FROM unnest(floors, tops) WITH ORDINALITY f (floor, top, i) ORDER BY f.i);
END $$;

-- Sets the ranges of the next entry: from the new marks on; late commits as before, as far as they are still there; and
-- those below the marks that lie above `lows`.
CREATE FUNCTION pgwork._set_ranges(INOUT m pgwork.mark, lows bigint[], marks bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    WITH late AS (
        SELECT r.lane, h.pos - 1 AS start, r.stop
          FROM (SELECT * FROM unnest(m.lanes, m.starts, m.stops) r (lane, start, stop)
                 WHERE r.stop < 9223372036854775807
                 UNION SELECT * FROM pgwork._late(m.queue, lows, marks)) r
         CROSS JOIN LATERAL (SELECT j.pos FROM pgwork.live_job j
                              WHERE j.queue = m.queue AND j.lane = r.lane AND j.pos > r.start
                                AND j.pos <= least(r.stop, m.marks[r.lane + 1]) AND j.token IS NULL
                              ORDER BY j.pos LIMIT 1) h
    ), merged AS ( -- where ranges overlap, a claim would meet a row twice
        SELECT p.lane, min(p.start) AS start, max(p.stop) AS stop
          FROM (SELECT l.*, count(*) FILTER (WHERE l.fresh) OVER (PARTITION BY l.lane ORDER BY l.start, l.stop) AS part
                  FROM (SELECT l.*, l.start >= max(l.stop) OVER (PARTITION BY l.lane ORDER BY l.start, l.stop
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS fresh FROM late l) l) p
         GROUP BY p.lane, p.part
    ), ranges AS ( -- a row that a claim is just cutting can lie on both sides of the mark
        SELECT r.* FROM merged r
         UNION ALL
        SELECT u.i - 1, greatest(u.mark, (SELECT max(r.stop) FROM merged r WHERE r.lane = u.i - 1)), 9223372036854775807
          FROM unnest(m.marks) WITH ORDINALITY u (mark, i)
    )
    SELECT array_agg(r.lane ORDER BY r.lane & 1 DESC, r.lane, r.start),
           array_agg(r.start ORDER BY r.lane & 1 DESC, r.lane, r.start),
           array_agg(r.stop ORDER BY r.lane & 1 DESC, r.lane, r.start), count(*) FILTER (WHERE r.lane & 1 = 1)
      INTO m.lanes, m.starts, m.stops, m.front FROM ranges r;
END $$;

-- What a tick does for a queue; since: the oldest tick that a transaction was slow from which is over now. False:
-- nothing has changed.
CREATE FUNCTION pgwork._tick_queue(queue integer, t pgwork.reaper_tick, prev_issued bigint, since bigint)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    was CONSTANT pgwork.mark := pgwork._mark(queue);
    m pgwork.mark := was;
    before bigint[]; -- where the look back begins ...
    rows bigint[];   -- the first of each lane
BEGIN
    IF was.version > since THEN -- rows of that transaction can lie below the marks, and below the floors
        m.back := ARRAY(SELECT least(u.low, u.back) FROM unnest(pgwork._marks_at(was, since), was.back)
                                                         WITH ORDINALITY u (low, back, i) ORDER BY u.i);
    END IF;
    IF m.back <> '{}' THEN -- a million positions a tick: it may be all that was done in an hour
        before := m.back;
        m.back := ARRAY(SELECT least(u.back + 1000000, u.mark) FROM unnest(before, was.marks || was.floors)
                                                                    WITH ORDINALITY u (back, mark, i) ORDER BY u.i);
        m.floors := ARRAY(SELECT least(f.floor, f.pos - 1)
                            FROM unnest(m.floors, pgwork._first_rows(queue, before[21:50], m.back[21:50]))
                                 WITH ORDINALITY f (floor, pos, i) ORDER BY f.i);
    END IF;
    rows := pgwork._first_rows(queue, m.floors);
    IF array_remove(rows, NULL) = '{}' AND was.version < t.version - 1 AND cardinality(was.lanes) = 20
       AND m.back || was.back = '{}' AND clock_timestamp() < began + interval '1 ms' THEN
        RETURN false; -- an idle queue; that took no time, so it has not left many dead tuples either
    END IF;
    m.marks := ARRAY(SELECT greatest(l.mark, coalesce((SELECT j.pos - 1 FROM pgwork.live_job j
                                WHERE j.queue = _tick_queue.queue AND j.lane = (l.i - 1)::smallint
                                  AND j.pos > l.mark AND j.pos <= prev_issued AND j.token IS NULL
                                  AND j.xmax <> ALL (t.slow)
                                ORDER BY j.pos LIMIT 1), prev_issued))
                       FROM unnest(was.marks) WITH ORDINALITY l (mark, i) ORDER BY l.i);
    m.floors := ARRAY(SELECT greatest(f.floor, least(f.pos - 1, prev_issued))
                        FROM unnest(m.floors, rows) WITH ORDINALITY f (floor, pos, i) ORDER BY f.i);
    m := pgwork._set_ranges(m, before[1:20], m.back[1:20]);
    IF m.back = was.marks || was.floors THEN m.back := '{}'; END IF;
    IF m.back = '{}' AND (m.marks, m.lanes, m.starts, m.stops, m.floors, m.back)
       IS NOT DISTINCT FROM (was.marks, was.lanes, was.starts, was.stops, was.floors, was.back) THEN
        RETURN false;
    END IF;
    SELECT h.* INTO m.froms, m.lows FROM pgwork._history(was, t.seen) h;
    m.version := t.version;
    INSERT INTO pgwork.mark SELECT m.*;
    DELETE FROM pgwork.mark r WHERE r.queue = m.queue AND r.version = was.version;
    RETURN true;
END $$;

-- One look, by one reaper at a time. Takes the last tick, and returns this one, for maintain() to write down.
CREATE FUNCTION pgwork._tick(prev pgwork.reaper_tick) RETURNS pgwork.reaper_tick
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    t pgwork.reaper_tick := prev;
    since bigint;
    moved boolean := false; up boolean := false; -- its time
    off CONSTANT boolean := (SELECT s.value = 'off' FROM pgwork.setting s WHERE s.name = 'low_water_marks');
    q integer;
BEGIN
    t.issued := coalesce(pg_sequence_last_value('pgwork.position'), 0);
    t.writers := pgwork._writers('pgwork.live_job'); -- only now: see 2. above
    IF prev.settled AND t.issued = prev.issued AND t.writers = '{}'
       AND NOT (off AND EXISTS (SELECT FROM pgwork.mark)) THEN
        RETURN prev;
    END IF;
    t.version := prev.version + 1;
    t.at := began;
    SELECT coalesce(array_agg(w.x), '{}'), coalesce(array_agg(coalesce(s.seen, prev.version)), '{}') INTO t.slow, t.seen
      FROM unnest(t.writers) w (x) LEFT JOIN unnest(prev.slow, prev.seen) s (x, seen) ON s.x = w.x
     WHERE w.x = ANY (prev.writers);
    SELECT min(s.seen) INTO since FROM unnest(prev.slow, prev.seen) s (x, seen) WHERE s.x <> ALL (t.slow);
    IF t.issued < prev.issued OR off THEN
        DELETE FROM pgwork.mark; -- the sequence went back: new jobs lie below all marks
        t.settled := true;
        RETURN t;
    END IF;
    t.next_queue := 0;
    FOR q IN SELECT r.id FROM pgwork.queue r ORDER BY r.id < prev.next_queue, r.id LOOP
        -- With thousands of queues it looks at some each time, at one at least. But a transaction is not over before all
        -- were looked at that have moved since it was met.
        IF up THEN
            t.next_queue := CASE t.next_queue WHEN 0 THEN q ELSE t.next_queue END;
            EXIT WHEN since IS NULL;
            CONTINUE WHEN (pgwork._mark(q)).version <= since;
        END IF;
        moved := pgwork._tick_queue(q, t, prev.issued, since) OR moved;
        up := clock_timestamp() > began + interval '20 ms';
    END LOOP;
    t.settled := NOT moved AND t.issued = prev.issued AND t.writers = '{}' AND t.next_queue = 0;
    RETURN t;
END $$;
