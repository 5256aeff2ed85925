-- 0004: low-water marks, where claims begin. doc/engine.md ("The low-water mark") shows with an example of two
-- transactions how a mark could pass a job, and why none is missed. In short: a transaction gets its id, then the lock
-- of live_job that every write needs, then positions. A tick reads `issued`, the last position drawn; then `writers`,
-- the transactions that hold that lock; then the jobs. A mark moves up to the `issued` of the tick before, but not past
-- a ready job. So it can pass only jobs of transactions that were writers at both ticks, the `slow` ones. For these the
-- ledger keeps the earlier marks. When one has ended, a tick searches once behind them. A late commit gets a range.

-- The newest entry of a queue. Without one, its ranges are all lanes, the quarantined ones last.
CREATE FUNCTION pgwork._mark(queue integer) RETURNS pgwork.mark LANGUAGE plpgsql STABLE AS $$
DECLARE m pgwork.mark;
BEGIN
    SELECT * INTO m FROM pgwork.mark t WHERE t.queue = _mark.queue ORDER BY t.version DESC LIMIT 1;
    IF NOT FOUND THEN
        m := (queue, 0, '{1,3,5,7,9,11,13,15,17,19,0,2,4,6,8,10,12,14,16,18}', array_fill(0::bigint, ARRAY[20]),
              array_fill(9223372036854775807, ARRAY[20]), 10, array_fill(0::bigint, ARRAY[20]),
              array_fill(0::bigint, ARRAY[20]), '{}', '{}', '{}');
    END IF;
    RETURN m;
END $$;

-- The ids of transactions that have written to live_job or locked rows of it, or are about to. Grouped by backend,
-- because the locks of a transaction that is being prepared belong to two virtual transactions.
CREATE FUNCTION pgwork._writers() RETURNS xid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT unnest(array_agg(l.transactionid)
                                 FILTER (WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'))
                   FROM pg_locks l GROUP BY split_part(l.virtualtransaction, '/', 1)
                 HAVING bool_or(l.relation = 'pgwork.live_job'::regclass
                                AND l.mode IN ('RowExclusiveLock', 'RowShareLock')
                                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())));
END $$;

-- The marks and floors that a queue had at a tick.
CREATE FUNCTION pgwork._marks_at(m pgwork.mark, version bigint) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE i integer := (SELECT max(f.i) FROM unnest(m.froms) WITH ORDINALITY f (at, i) WHERE f.at <= version);
BEGIN
    RETURN CASE WHEN m.version <= version THEN m.marks || m.floors
                ELSE coalesce(m.lows[40 * i - 39:40 * i], array_fill(0::bigint, ARRAY[40])) END;
END $$;

-- The earlier marks that the next entry must keep: those of each tick in `seen`.
CREATE FUNCTION pgwork._history(m pgwork.mark, seen bigint[], OUT froms bigint[], OUT lows bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    froms := ARRAY(SELECT DISTINCT CASE WHEN m.version <= s THEN m.version
                                        ELSE (SELECT max(f) FROM unnest(m.froms) f WHERE f <= s) END
                     FROM unnest(seen) s ORDER BY 1);
    lows := ARRAY(SELECT l.low FROM unnest(froms) WITH ORDINALITY f (at, i)
                   CROSS JOIN LATERAL unnest(pgwork._marks_at(m, f.at)) WITH ORDINALITY l (low, i) ORDER BY f.i, l.i);
END $$;

-- Finds late commits between two marks of each lane: about twenty tight ranges per lane. (The planner inlines it.)
CREATE FUNCTION pgwork._late(queue integer, lows bigint[], marks bigint[])
RETURNS TABLE (lane smallint, start bigint, stop bigint) LANGUAGE sql STABLE AS $$
    WITH rows AS ( -- all that follows the first ten thousand rows of a lane is one more range
        SELECT l.lane, j.pos, CASE WHEN j.i = 10000 THEN l.mark ELSE greatest(j.pos, j.last_id) END AS until
          FROM (SELECT (i - 1)::smallint AS lane, low, mark FROM unnest(lows, marks) WITH ORDINALITY u (low, mark, i)
                 WHERE low < mark) l
         CROSS JOIN LATERAL (SELECT j.*, row_number() OVER (ORDER BY j.pos) AS i
                               FROM (SELECT j.pos, j.last_id FROM pgwork.live_job j
                                      WHERE j.queue = _late.queue AND j.lane = l.lane AND j.pos > l.low
                                        AND j.pos <= l.mark AND j.token IS NULL ORDER BY j.pos LIMIT 10000) j) j
    ), parts AS ( -- a new range begins after a gap
        SELECT r.lane, r.pos, r.until, sum(r.gap::integer) OVER (PARTITION BY r.lane ORDER BY r.pos) AS part
          FROM (SELECT r.*, r.pos - lag(r.pos) OVER w
                            > greatest(1000, (max(r.pos) OVER l - min(r.pos) OVER l) / 20) IS TRUE AS gap
                  FROM rows r WINDOW w AS (PARTITION BY r.lane ORDER BY r.pos), l AS (PARTITION BY r.lane)) r
    ) SELECT p.lane, min(p.pos) - 1, max(p.until) FROM parts p GROUP BY p.lane, p.part
$$;

-- The first row of each lane, above its floor and up to its top.
CREATE FUNCTION pgwork._first_rows(queue integer, floors bigint[], tops bigint[] DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT (SELECT j.pos FROM pgwork.live_job j
                          WHERE j.queue = _first_rows.queue AND j.lane = (f.i - 1)::smallint AND j.pos > f.floor
                            AND j.pos <= coalesce(f.top, 9223372036854775807) ORDER BY j.pos LIMIT 1)
                   FROM unnest(floors, tops) WITH ORDINALITY f (floor, top, i) ORDER BY f.i);
END $$;

-- Sets the ranges of the next entry: all from the new marks on, the known late commits that are still there, and new
-- late commits between `lows` and the marks.
CREATE FUNCTION pgwork._set_ranges(INOUT m pgwork.mark, lows bigint[], marks bigint[]) LANGUAGE plpgsql AS $$
BEGIN
    WITH late AS (SELECT r.lane, h.pos - 1 AS start, r.stop
          FROM (SELECT * FROM unnest(m.lanes, m.starts, m.stops) r (lane, start, stop)
                 WHERE r.stop < 9223372036854775807
                 UNION SELECT * FROM pgwork._late(m.queue, lows, marks)) r
         CROSS JOIN LATERAL (SELECT j.pos FROM pgwork.live_job j
                              WHERE j.queue = m.queue AND j.lane = r.lane AND j.pos > r.start
                                AND j.pos <= least(r.stop, m.marks[r.lane + 1]) AND j.token IS NULL
                              ORDER BY j.pos LIMIT 1) h
    ), merged AS ( -- a claim would read a row twice if ranges overlapped
        SELECT p.lane, min(p.start) AS start, max(p.stop) AS stop
          FROM (SELECT l.*, count(*) FILTER (WHERE l.fresh) OVER (PARTITION BY l.lane ORDER BY l.start, l.stop) AS part
                  FROM (SELECT l.*, l.start >= max(l.stop) OVER (PARTITION BY l.lane ORDER BY l.start, l.stop
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS fresh FROM late l) l) p
         GROUP BY p.lane, p.part
    ), ranges AS ( -- a row that a claim is splitting can be on both sides of the mark
        SELECT r.* FROM merged r UNION ALL
        SELECT u.i - 1, greatest(u.mark, (SELECT max(r.stop) FROM merged r WHERE r.lane = u.i - 1)), 9223372036854775807
          FROM unnest(m.marks) WITH ORDINALITY u (mark, i)
    ) SELECT array_agg(r.lane), array_agg(r.start), array_agg(r.stop), count(*) FILTER (WHERE r.lane & 1 = 1)
        INTO m.lanes, m.starts, m.stops, m.front
        FROM (SELECT * FROM ranges r ORDER BY r.lane & 1 DESC, r.lane, r.start) r;
END $$;

-- The tick of one queue. since: the oldest `seen` of the slow transactions that have ended. False: nothing changed.
CREATE FUNCTION pgwork._tick_queue(queue integer, t pgwork.reaper_tick, prev_issued bigint, since bigint)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp(); was CONSTANT pgwork.mark := pgwork._mark(queue);
    m pgwork.mark := was; rows bigint[]; -- the first of each lane
    before bigint[]; -- where the search for late commits begins
BEGIN
    IF was.version > since THEN -- rows of that transaction can be below the marks, and below the floors
        m.back := ARRAY(SELECT least(u.low, u.back) FROM unnest(pgwork._marks_at(was, since), was.back)
                                                         WITH ORDINALITY u (low, back, i) ORDER BY u.i);
    END IF;
    IF m.back <> '{}' THEN -- a million positions per tick, because it may be the work of an hour
        before := m.back;
        m.back := ARRAY(SELECT least(u.back + 1000000, u.mark) FROM unnest(before, was.marks || was.floors)
                                                                    WITH ORDINALITY u (back, mark, i) ORDER BY u.i);
        m.floors := ARRAY(SELECT least(f.floor, f.pos - 1)
                            FROM unnest(m.floors, pgwork._first_rows(queue, before[21:40], m.back[21:40]))
                                 WITH ORDINALITY f (floor, pos, i) ORDER BY f.i);
    END IF;
    rows := pgwork._first_rows(queue, m.floors);
    IF array_remove(rows, NULL) = '{}' AND was.version < t.version - 1 AND cardinality(was.lanes) = 20
       AND m.back || was.back = '{}' AND clock_timestamp() < began + interval '1 ms' THEN
        RETURN false; -- an idle queue. The search was fast, so there are few dead tuples
    END IF;
    m.marks := ARRAY(SELECT greatest(l.mark, coalesce((SELECT j.pos - 1 FROM pgwork.live_job j
                                WHERE j.queue = _tick_queue.queue AND j.lane = (l.i - 1)::smallint
                                  AND j.pos > l.mark AND j.pos <= prev_issued AND j.token IS NULL
                                  AND j.xmax <> ALL (t.slow) ORDER BY j.pos LIMIT 1), prev_issued))
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

-- One tick, by one reaper at a time. Takes the last tick, and returns this one, which maintain() stores.
CREATE FUNCTION pgwork._tick(prev pgwork.reaper_tick) RETURNS pgwork.reaper_tick LANGUAGE plpgsql AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    off CONSTANT boolean := (SELECT s.value = 'off' FROM pgwork.setting s WHERE s.name = 'low_water_marks');
    t pgwork.reaper_tick := prev; since bigint; moved boolean := false; spent boolean := false; q integer;
BEGIN
    t.issued := coalesce(pg_sequence_last_value('pgwork.position'), 0);
    t.writers := pgwork._writers(); -- must follow `issued`
    IF prev.settled AND t.issued = prev.issued AND t.writers = '{}'
       AND NOT (off AND EXISTS (SELECT FROM pgwork.mark)) THEN
        RETURN prev;
    END IF;
    t.version := prev.version + 1; t.at := began;
    SELECT coalesce(array_agg(w.x), '{}'), coalesce(array_agg(coalesce(s.seen, prev.version)), '{}') INTO t.slow, t.seen
      FROM unnest(t.writers) w (x) LEFT JOIN unnest(prev.slow, prev.seen) s (x, seen) ON s.x = w.x
     WHERE w.x = ANY (prev.writers);
    SELECT min(s.seen) INTO since FROM unnest(prev.slow, prev.seen) s (x, seen) WHERE s.x <> ALL (t.slow);
    IF t.issued < prev.issued OR off THEN
        DELETE FROM pgwork.mark; -- the sequence was set back: new jobs are below all marks
        t.settled := true; RETURN t;
    END IF;
    t.next_queue := 0;
    FOR q IN SELECT r.id FROM pgwork.queue r ORDER BY r.id < prev.next_queue, r.id LOOP
        -- With thousands of queues, a tick handles some of them, at least one. But if a slow transaction has ended, it
        -- handles all queues whose marks have moved since that transaction was seen.
        IF spent THEN
            t.next_queue := CASE t.next_queue WHEN 0 THEN q ELSE t.next_queue END;
            EXIT WHEN since IS NULL;
            CONTINUE WHEN (pgwork._mark(q)).version <= since;
        END IF;
        moved := pgwork._tick_queue(q, t, prev.issued, since) OR moved;
        spent := clock_timestamp() > began + interval '20 ms';
    END LOOP;
    t.settled := NOT moved AND t.issued = prev.issued AND t.writers = '{}' AND t.next_queue = 0;
    RETURN t;
END $$;
