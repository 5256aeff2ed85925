-- 0004: where a claim begins. Marks in the session, and surveys that all sessions share.

-- What a session remembers of a queue between claims, so that a claim need not walk over the remains of all
-- jobs before it while vacuum is held back. It is a hint, in custom settings of the session: lost with it, rolled back with the
-- claim, and never what decides.
--   pgwork.hint_<slot>     [1] when it was made and [2] shall be renewed, ms   [3] when a claim that finds nothing, and [4] any, looks round
--                          [5] priorities in use   [6] who drew places up to this one is through
--                          [7] the last place and [8] the end of transactions as they were [9] at that time, ms: the next [6]
--                          [10] the queue   [11] 1: there are stragglers; what others have passed is not passed here
--                          [12..] a mark for each lane, as place * 32 + lane: nothing is expected up to there
--   pgwork.short_<slot>    for small claims one upon another: [1] until when, ms   [2] the queue   [3] its priorities, 2^(10 + p) for each
--                          priority p that is not served, since one before it has jobs whose holder died, or it has some itself,
--                          and 2^30 where bundles may wait: then it serves the first lane only, where what they held is handed back
--                          [4] who drew places up to this one is through; 0: there are stragglers   [5..] marks, as above
--   pgwork.survey_<slot>   the last survey of its own, where another session is in the midst of one for long
-- What sessions know from each other is in the table pgwork.survey, and in the sequence pgwork.mark.
--   pgwork.met             the queues without a hint that were met last
-- A session remembers 256 queues at most: each new custom setting costs the more the more there are. Only the first queue gets its hint at once;
-- another one does, or takes another's place, when it is met for the second time among some thirty that have none, and once in a
-- hundred times by chance (who goes round more than these meets none of them again so soon): of thousands each would be forgotten before it
-- is met again, and to learn it costs as much as a claim, before PostgreSQL 16 up to three.
CREATE FUNCTION pgwork._hint(queue integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'pgwork.hint_' || (queue & 255)::text;

-- By name: a small claim does not look the queue up.
CREATE FUNCTION pgwork._short(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'pgwork.short_' || (hashtext(name) & 255)::text;

CREATE FUNCTION pgwork._own_survey(queue integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'pgwork.survey_' || (queue & 255)::text;

-- The mark that was renewed last, by whatever session, as place * 32 + lane; NULL: it is another queue's. It is a sequence, which knows
-- no transactions and leaves no dead rows: 14 bits for the queue, 49 for the mark. Queues with higher numbers do without.
CREATE FUNCTION pgwork._mark(queue bigint) RETURNS bigint
LANGUAGE sql RETURN CASE WHEN queue < 16384 THEN nullif(least(pg_sequence_last_value('pgwork.mark') # (queue << 49), 1::bigint << 49), 1::bigint << 49) END;

-- Renews the marks. Claims take jobs in order: what lies before the first that one has got is taken already, or just
-- being taken. But marks stay behind producers that have drawn a place and not committed: until the transactions of their time
-- are through, or for 50 ms; the rest is left to surveys. `marks` are those that the claim began at: the hint's, or nearer ones of others;
-- of the first lanes only, where no others were looked at.
-- spread: so many places has a job of the queue to itself; others lie between. idle_ms: so long the short way was not to be had; NULL: nor is it now.
CREATE FUNCTION pgwork._advance(queue text, n integer, spread bigint, issued bigint, first bigint, now_ms bigint, hint bigint[], marks bigint[],
    idle_ms bigint, blind boolean, bundles boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mark bigint;
    passed bigint;
    came bigint;
    beyond integer;
    short_ms bigint := 20 + least(4 * idle_ms, 80); -- longer in a session whose claims come so rarely that this one is late for 20 ms
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL; -- the snapshot is older than what is issued: nothing is learnt from it
    END IF;
    IF issued IS NOT NULL AND (now_ms >= hint[9] + 50 OR pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= hint[8]) THEN
        hint[6] := hint[7];
        hint[7] := issued;
        hint[8] := pg_current_xact_id()::text::bigint; -- which this claim has drawn after `issued` was read
        hint[9] := now_ms;
    END IF;
    mark := least((first >> 5) - 1, hint[6]);
    FOR i IN 12 .. 11 + cardinality(marks) LOOP -- the lanes before its own had nothing more
        IF marks[i - 11] & 31 <= first & 31 AND marks[i - 11] >> 5 < mark THEN
            passed := greatest(passed, mark - (marks[i - 11] >> 5));
            came := greatest(came, mark - (hint[i] >> 5));
            hint[i] := (mark << 5) + (hint[i] & 31);
        ELSE
            hint[i] := marks[i - 11];
        END IF;
        IF hint[i] & 31 = first & 31 AND hint[10] < 16384 AND hint[i] < 1::bigint << 49 THEN
            PERFORM setval('pgwork.mark', (hint[10] << 49) + hint[i]);
        END IF;
    END LOOP;
    IF idle_ms IS NOT NULL THEN
        -- And for longer, until this session is to look round again, while claims go at this speed through places whose producers are
        -- through, and pass over 300 jobs at most where they are blind (others see by the tokens that they complete where they are).
        -- A second at most, however long surveys pause: what is good for more than claim_batch() expects is taken for a clock that was set back.
        short_ms := short_ms + greatest(0, least(1000, hint[4] - now_ms, least(hint[6] - mark, CASE WHEN blind THEN 300 * spread END)
                                                                         * (now_ms - hint[1])::float8 / greatest(came, 1)));
        beyond := coalesce(1024 - (1 << (hint[12 + cardinality(marks)] & 31)::integer / 2), 0); -- the priorities that are not served
        PERFORM set_config(pgwork._short(queue), (ARRAY[now_ms + short_ms, hint[10], hint[5] + (beyond << 10) + CASE WHEN bundles THEN 1 << 30 ELSE 0 END,
                                                        hint[6] * (1 - hint[11])]
                                                  || hint[12:CASE WHEN bundles THEN 12 ELSE 11 + cardinality(marks) END])::text, false);
    END IF;
    -- This costs as much as to pass over some hundreds of jobs. The faster they go, the sooner again; the larger the claims, the later; and who
    -- comes rarely lets some claims go by.
    hint[2] := now_ms + least(greatest(20, least(2 * idle_ms, 500)), greatest(200, 20 * sqrt(n)) * spread * (now_ms - hint[1]) / greatest(passed, 1));
    hint[1] := now_ms;
    RETURN set_config(pgwork._hint(hint[10]::integer), hint::text, false);
END $$;

-- By lane: the first ready job above `froms` and up to `tos`, and whose xmax it has; nothing is ready up to `reached`. While vacuum is held
-- back there are millions of dead entries between two ready ones, so it looks piece by piece, and for 50 ms.
-- What `holders` have is passed over: each of `met`, in each lane, was met first at its one of `places`.
CREATE FUNCTION pgwork._first_ready(queue integer, froms bigint[], tos bigint[], holders xid[],
    OUT reached bigint[], OUT pos bigint[], OUT held xid[], OUT through boolean, OUT met xid[], OUT places bigint[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    piece bigint := 250000; -- places: as many dead entries are walked over in that time, or somewhat more
    lanes smallint[] := '{}'; -- in which they were met
    r record;
BEGIN
    reached := froms;
    met := '{}';
    places := '{}';
    LOOP
        SELECT array_agg(CASE WHEN h.theirs THEN h.pos ELSE coalesce(h.pos - 1, least(l.at + piece, greatest(l.at, l.until))) END ORDER BY l.i) AS reached,
               array_agg(CASE WHEN NOT h.theirs THEN h.pos END ORDER BY l.i) AS pos, array_agg(h.xmax ORDER BY l.i) AS held,
               bool_and(CASE WHEN h.pos IS NULL THEN l.at + piece >= l.until ELSE NOT h.theirs END) AS through,
               array_agg(h.xmax ORDER BY l.i) FILTER (WHERE h.theirs) AS met, array_agg(h.pos ORDER BY l.i) FILTER (WHERE h.theirs) AS places,
               array_agg(l.i - 1 ORDER BY l.i) FILTER (WHERE h.theirs) AS lanes
          INTO r
          FROM unnest(reached, tos) WITH ORDINALITY l (at, until, i)
          LEFT JOIN LATERAL (SELECT j.pos, j.xmax, j.xmax = ANY (holders) AS theirs FROM pgwork.live_job j
                              WHERE j.queue = _first_ready.queue AND j.lane = (l.i - 1)::smallint AND j.token IS NULL
                                AND j.pos > l.at AND j.pos <= least(l.at + piece, l.until)
                                AND (j.xmax <> ALL (met)
                                     OR NOT EXISTS (SELECT FROM unnest(met, lanes) m (x, lane) WHERE m.x = j.xmax AND m.lane = j.lane))
                              ORDER BY j.pos LIMIT 1) h ON true;
        reached := r.reached;
        pos := r.pos;
        held := r.held;
        through := r.through;
        met := met || r.met;
        places := places || r.places;
        lanes := lanes || r.lanes::smallint[];
        EXIT WHEN through OR clock_timestamp() > began + interval '50 ms';
        piece := least(2 * piece, 4000000);
    END LOOP;
END $$;

-- The ids of transactions that have written to a relation or locked rows of it, or are about to. (A join of the view with itself would be a nested loop here.)
CREATE FUNCTION pgwork._writers(place regclass) RETURNS xid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT unnest(array_agg(l.transactionid) FILTER (WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'))
                   FROM pg_locks l
                  GROUP BY l.virtualtransaction
                 HAVING bool_or(l.relation = place AND l.mode IN ('RowExclusiveLock', 'RowShareLock')
                                AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())));
END $$;

-- A straggler is a job below the marks: its transaction drew its place, and committed when later ones had been claimed. Who
-- brings stragglers was running when they were passed. So what is not ready below the heads of a survey by the time of the next
-- one never will be, but for transactions that ran at both: up to there is the floor. These are watched: when one has finished, all from where
-- its first place may be up to the floor goes on a list, and is swept, a piece with each survey.
-- Thus a survey costs as much as was claimed since the last one, and what a piece takes, however long vacuum is held back.
-- What such a transaction has claimed, or locked, is passed over likewise, and counts as what it may bring: it holds vacuum back itself, so that
-- who began there each time would walk over all that was claimed since.
-- (Transactions draw places after their ids, and `issued` is read before `running`, and that before the heads.)
-- Now and then everything goes on that list: what is believed may be wrong after all.
-- `back`: stragglers are about, so nobody passes over what others have passed (_mark()) until a survey finds none.
CREATE FUNCTION pgwork._survey(last pgwork.survey) RETURNS pgwork.survey
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began timestamptz := clock_timestamp();
    now_ms bigint := extract(epoch FROM began) * 1000;
    issued bigint := coalesce(pg_sequence_last_value('pgwork.place'), 0);
    now_is pg_snapshot := pg_current_snapshot();
    running xid8[] := ARRAY(SELECT pg_snapshot_xip(now_is));
    ends xid8 := pg_snapshot_xmax(now_is);
    new pgwork.survey;
    writers xid[];
    holders xid[]; -- slow ones that may have jobs
    met xid[]; -- those whose jobs were passed over
    places bigint[];
    low bigint;
    top bigint := (SELECT max(f) FROM unnest(last.floors) f);
    near record;
    below record;
    stray bigint;
    free boolean; -- of the stragglers: there is one that nobody is just claiming
    lost boolean := false; -- nothing is learnt for now
    status text;
BEGIN
    -- A snapshot ends behind the last transaction that is through. What runs with a higher id is not in it, though it may have
    -- drawn places long ago: on a quiet server that is the one that matters. Only an error tells which id is not given yet.
    BEGIN
        FOR i IN 1 .. 1000 LOOP
            status := pg_xact_status(ends); -- a PERFORM would be a statement each time
            running := running || ends;
            ends := (ends::text::bigint + 1)::text::xid8;
        END LOOP;
        lost := true; -- too many, of savepoints
        ends := last.ends;
        issued := last.issued;
    EXCEPTION WHEN invalid_parameter_value THEN
        NULL;
    END;

    -- What is to be swept: the newest first. What else was to be swept above its beginning is swept with it.
    low := (SELECT min(s.low) FROM unnest(last.slow, last.lows) s (x, low) WHERE s.x <> ALL (running));
    new.froms := last.froms;
    new.tos := last.tos;
    new.all_at := last.all_at;
    new.all_due := last.all_due;
    IF low < top THEN
        SELECT coalesce(array_agg(l.a ORDER BY l.i), '{}'), coalesce(array_agg(least(l.b, low) ORDER BY l.i), '{}') INTO new.froms, new.tos
          FROM unnest(new.froms, new.tos) WITH ORDINALITY l (a, b, i) WHERE l.a < low;
        new.froms := low || new.froms;
        new.tos := top || new.tos;
    END IF;
    IF now_ms NOT BETWEEN last.all_at AND last.all_due THEN
        new.froms := new.froms || 0::bigint;
        new.tos := new.tos || top;
        new.all_at := now_ms;
        new.all_due := now_ms + 86400000; -- a minute after all is done, or twenty times as long as that took
    END IF;
    IF cardinality(new.froms) > 20 THEN
        new.froms := ARRAY(SELECT min(f) FROM unnest(new.froms) f);
        new.tos := ARRAY[top];
    END IF;

    holders := ARRAY(SELECT s.x::xid FROM unnest(last.slow) s (x) WHERE s.x = ANY (running));
    IF holders <> '{}' THEN
        writers := pgwork._writers('pgwork.live_job');
        holders := ARRAY(SELECT h FROM unnest(holders) h WHERE h = ANY (writers));
    END IF;
    SELECT * INTO near FROM pgwork._first_ready(last.queue, ARRAY(SELECT least(f, issued) FROM unnest(last.floors) WITH ORDINALITY l (f, i) ORDER BY l.i),
                                                array_fill(issued, ARRAY[20]), holders);
    met := near.met;
    places := near.places;
    SELECT array_agg(r.at ORDER BY r.i), array_agg(least(r.at, r.head) ORDER BY r.i),
           bit_or(CASE WHEN r.pos IS NULL THEN 0 ELSE 1 << (r.i - 1)::integer / 2 END),
           coalesce(bool_or(r.pos <= last.reached >> 5 AND r.i - 1 <= last.reached & 31 AND r.held <> ALL (running::xid[])), false)
      INTO new.heads, new.floors, new.used, new.back
      FROM unnest(near.reached, near.pos, near.held, last.heads) WITH ORDINALITY r (at, pos, held, head, i);
    new.through := near.through;
    WHILE new.froms <> '{}' LOOP
        SELECT * INTO below FROM pgwork._first_ready(last.queue, array_fill(new.froms[1], ARRAY[20]),
                                                     ARRAY(SELECT least(f, new.tos[1]) FROM unnest(last.floors) WITH ORDINALITY l (f, i) ORDER BY l.i), holders);
        met := met || below.met;
        places := places || below.places;
        -- From where the next one goes on; a lane that is swept as far as it goes is no reason to stay, though others are not.
        new.froms[1] := (SELECT min(b.r) FROM unnest(below.reached, below.pos, last.floors) b (r, pos, f)
                          WHERE b.pos IS NOT NULL OR b.r < least(b.f, new.tos[1]));
        IF (SELECT bool_or(p IS NOT NULL) FROM unnest(below.pos) p) THEN
            new.strays := below.pos;
            new.used := new.used | (SELECT bit_or(CASE WHEN b.pos IS NULL THEN 0 ELSE 1 << (b.i - 1)::integer / 2 END) FROM unnest(below.pos) WITH ORDINALITY b (pos, i));
            -- Who asked for more than lie together there would walk on to where the others are.
            SELECT sum(coalesce(j.jobs, 1)) INTO new.late
              FROM unnest(new.strays, last.floors) WITH ORDINALITY l (stray, floor, i)
             CROSS JOIN LATERAL (SELECT j.jobs FROM pgwork.live_job j
                                  WHERE j.queue = last.queue AND j.lane = (l.i - 1)::smallint AND j.pos BETWEEN l.stray AND l.stray + 1000 AND j.token IS NULL
                                    AND j.xmax <> ALL (running::xid[])
                                  LIMIT 1000) j
             WHERE l.stray < l.floor - 100000
               AND l.i <= (SELECT min(n.i) FROM unnest(near.pos) WITH ORDINALITY n (pos, i) WHERE n.pos IS NOT NULL) IS NOT FALSE;
            IF new.late IS NULL THEN -- far ones that somebody is just claiming are left to him, others to when it is their turn
                new.strays := ARRAY(SELECT CASE WHEN l.stray >= l.floor - 100000 THEN l.stray END
                                      FROM unnest(new.strays, last.floors) WITH ORDINALITY l (stray, floor, i) ORDER BY l.i);
            END IF;
            free := (SELECT bool_or(b.held <> ALL (running::xid[])) FROM unnest(below.pos, below.held) b (pos, held) WHERE b.pos IS NOT NULL);
            new.back := new.back OR free AND EXISTS (SELECT FROM unnest(new.strays) p WHERE p IS NOT NULL);
        END IF;
        IF new.froms[1] IS NULL THEN -- through with that
            new.froms := new.froms[2:];
            new.tos := new.tos[2:];
            -- Where transactions end all the time, nobody but who sweeps the new ones would get a turn.
            CONTINUE WHEN new.strays IS NULL AND clock_timestamp() < began + interval '50 ms';
        ELSIF new.strays IS NOT NULL AND (NOT free OR new.strays IS NOT DISTINCT FROM last.strays) THEN
            -- Somebody is just claiming it, or what is more urgent goes before it: first what lies behind it, then it once more.
            stray := new.froms[1];
            new.froms[1] := (SELECT min(CASE WHEN b.pos IS NOT NULL THEN b.pos WHEN b.r < least(b.f, new.tos[1]) THEN b.r END)
                               FROM unnest(below.reached, below.pos, last.floors) b (r, pos, f));
            IF cardinality(new.froms) = 1 OR new.tos[cardinality(new.tos)] > stray THEN
                new.froms := new.froms || stray;
                new.tos := new.tos || (SELECT max(p) FROM unnest(below.pos) p);
            ELSE
                new.tos[cardinality(new.tos)] := (SELECT max(p) FROM unnest(below.pos) p);
            END IF;
        END IF;
        EXIT;
    END LOOP;
    IF new.froms = '{}' THEN
        new.all_due := least(new.all_due, now_ms + greatest(60000, 20 * (now_ms - new.all_at)));
    END IF;
    new.pause := CASE WHEN lost THEN least(20 * extract(epoch FROM clock_timestamp() - began) * 1000, 5000) ELSE 0 END;

    SELECT coalesce(array_agg(r.x ORDER BY r.x), '{}'), coalesce(array_agg(coalesce(s.low, last.before) ORDER BY r.x), '{}') INTO new.slow, new.lows
      FROM unnest(running) r (x) LEFT JOIN unnest(last.slow, last.lows) s (x, low) ON s.x = r.x
     WHERE r.x < last.ends;
    IF new.slow <> '{}' THEN
        writers := pgwork._writers('pgwork.place'); -- who does not hold the sequence has drawn no place yet
        -- But who has finished since the look at the jobs holds nothing any more, and that look has not seen what it brought.
        SELECT array_agg(CASE WHEN s.x::xid = ANY (holders) THEN least(s.low, (SELECT min(m.place) - 1 FROM unnest(met, places) m (x, place) WHERE m.x = s.x::xid))
                              WHEN s.x::xid = ANY (writers) OR pg_xact_status(s.x) IS DISTINCT FROM 'in progress' THEN s.low ELSE issued END ORDER BY s.i) INTO new.lows
          FROM unnest(new.slow, new.lows) WITH ORDINALITY s (x, low, i);
    END IF;
    new.queue := last.queue;
    new.period := now_ms / 30000;
    new.at := now_ms;
    new.reached := coalesce(pgwork._mark(last.queue), last.reached);
    new.ends := ends;
    new.issued := issued;
    new.before := last.issued;
    RETURN new;
END $$;

-- A new hint. One session surveys, and the others go by what it saw: if each walked over what all of them have claimed, many
-- of them would do little else. The lock makes surveys follow one another, each in sight of the one before. It is held until the
-- transaction ends; when that takes long, the others survey for themselves, and so does at once who found nothing.
-- Stragglers from long ago (`late`: so many lie together) are for the claim of who has surveyed; its next one goes on where it was.
CREATE FUNCTION pgwork._look_round(queue integer, priorities integer, large boolean, found_nothing boolean, INOUT hint bigint[], OUT late integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    known boolean := hint[10] = queue AND now_ms BETWEEN hint[1] AND hint[1] + 10000;
    patience_ms integer := CASE WHEN found_nothing THEN 50 ELSE 500 END;
    rest_ms CONSTANT bigint := CASE WHEN known THEN least(8 * (now_ms - hint[1]), 4000) ELSE 0 END; -- who comes rarely leaves more looks to the others
    mine boolean := false;
    looked boolean := false;
    s pgwork.survey;
    own CONSTANT pgwork.survey := nullif(current_setting(pgwork._own_survey(queue), true), '')::pgwork.survey;
    own_at CONSTANT bigint := CASE WHEN own.queue = queue AND own.at <= now_ms THEN own.at ELSE 0 END;
    lone boolean := false; -- ours is newer than the one that all share
    shared_period bigint;
    fresh pgwork.survey;
    used integer;
    nowhere CONSTANT bigint[] := array_fill(0::bigint, ARRAY[20]);
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- As in _advance(). All lanes from their starts.
        hint := ARRAY[0, 0, now_ms + 50, 0, 1023, 0, 0, 0, 0, queue, 1] || ARRAY(SELECT l::bigint FROM generate_series(0, 19) l);
        RETURN;
    END IF;
    IF large AND current_setting('pgwork.settled', true) IS NULL THEN
        -- glibc gives memory back at the end of a transaction that took some, and the next one gets it cleared anew: that was a third of
        -- the time of a claim of 1,000. It leaves that alone once a block of a megabyte has come and gone, such as lpad() takes for
        -- so many characters of UTF-8; most of it is never touched, which would take longer than all the rest here.
        PERFORM octet_length(lpad('', 250000, ' ')), set_config('pgwork.settled', '', false);
    END IF;
    SELECT * INTO s FROM pgwork.survey s WHERE s.queue = _look_round.queue ORDER BY s.period DESC LIMIT 1;
    IF own_at > coalesce(s.at, 0) THEN
        s := own;
    END IF;
    IF s.late IS NOT NULL THEN
        patience_ms := 50; -- the next ones
    END IF;
    IF (now_ms - s.at BETWEEN 0 AND greatest(patience_ms, s.pause)) IS NOT TRUE THEN
        mine := pg_try_advisory_xact_lock(pgwork._lock('survey', queue));
        SELECT * INTO s FROM pgwork.survey s WHERE s.queue = _look_round.queue ORDER BY s.period DESC LIMIT 1; -- another one may just have been through
        shared_period := s.period;
        lone := own_at > coalesce(s.at, 0);
        IF lone THEN
            s := own;
        END IF;
        looked := (now_ms - s.at BETWEEN 0 AND greatest(patience_ms, s.pause) * CASE WHEN mine OR found_nothing OR lone THEN 1 ELSE 4 END) IS NOT TRUE;
    END IF;
    IF looked THEN
        IF s.queue IS NULL THEN
            s := (queue, 0, 0, 0, 0, 0, 0, NULL, 0, false, 0, 0, '0', false, nowhere, nowhere, '{}', '{}', '{}', '{}', NULL);
        ELSIF NOT mine THEN
            s.all_due := s.all_due + 60000; -- that is the business of who is at it
        ELSIF lone THEN
            s.all_due := least(s.all_due, now_ms + 60000); -- and now it is ours
        END IF;
        fresh := pgwork._survey(s);
        late := fresh.late;
        IF mine THEN
            INSERT INTO pgwork.survey SELECT fresh.*
            ON CONFLICT ON CONSTRAINT survey_pkey DO UPDATE
            SET (at, pause, all_at, all_due, used, late, reached, back, issued, before, ends, through, heads, floors, slow, lows, froms, tos, strays) = (SELECT
                fresh.at, fresh.pause, fresh.all_at, fresh.all_due, fresh.used, fresh.late, fresh.reached, fresh.back, fresh.issued, fresh.before,
                fresh.ends, fresh.through, fresh.heads, fresh.floors, fresh.slow, fresh.lows, fresh.froms, fresh.tos, fresh.strays);
            IF shared_period <> fresh.period THEN
                DELETE FROM pgwork.survey o WHERE o.queue = _look_round.queue AND o.period = shared_period;
            END IF;
            PERFORM pgwork._note(queue, fresh.used); -- rows may have come in by COPY, which notes nothing
        ELSE -- or the next one would begin where this one did, and behind millions of dead entries none would come any further
            PERFORM set_config(pgwork._own_survey(queue), fresh::text, false);
        END IF;
        s := fresh;
    END IF;

    used := priorities | s.used;
    IF NOT known THEN
        hint := ARRAY[0, 0, 0, 0, 0, s.before, s.issued, s.ends::text::bigint, s.at, queue, 0];
    ELSIF s.at > hint[9] THEN
        hint := hint[1:5] || ARRAY[greatest(hint[6], s.before), s.issued, s.ends::text::bigint, s.at] || hint[10:];
    END IF;
    IF now_ms >= hint[9] + 50 THEN
        hint[6] := hint[7];
    END IF;
    IF hint[5] <> used OR s.through AND s.late IS NULL AND (looked OR s.at > hint[1]) THEN
        hint := ARRAY[s.at, now_ms + 5, 0, 0, used] || hint[6:10] || (s.back AND s.late IS NULL)::integer::bigint
                || ARRAY(SELECT (least(l.head, hint[6], CASE WHEN s.late IS NULL THEN l.stray - 1 END) << 5) + l.i - 1
                           FROM unnest(s.heads, s.strays) WITH ORDINALITY l (head, stray, i) WHERE used >> (l.i - 1)::integer / 2 & 1 = 1 ORDER BY l.i);
    END IF; -- else its own marks are nearer
    hint[2] := CASE WHEN known THEN hint[2] ELSE 0 END;
    hint[3] := s.at + greatest(50, s.pause);
    IF now_ms >= hint[3] THEN
        hint[3] := 0; -- old by now, whatever it was when the claim began
    END IF;
    hint[4] := now_ms + CASE WHEN late IS NULL THEN greatest(500 + 500 * random(), rest_ms, s.pause) ELSE 50 END;
    PERFORM set_config(pgwork._hint(queue), hint::text, false);
    IF late IS NOT NULL THEN -- for this claim only, which renews no marks
        hint := hint[1:1] || (now_ms + 60000) || hint[3:10] || 1::bigint
                || ARRAY(SELECT (least(l.head, hint[6], l.stray - 1) << 5) + l.i - 1
                           FROM unnest(s.heads, s.strays) WITH ORDINALITY l (head, stray, i) WHERE used >> (l.i - 1)::integer / 2 & 1 = 1 ORDER BY l.i);
    END IF;
END $$;
