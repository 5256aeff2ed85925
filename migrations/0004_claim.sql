-- 0004: claims. Never a job under a live lease, never more than n, the lowest priority number first,
-- then the oldest; jobs that an open transaction holds are skipped, not waited for.

-- A token is the claim's number (pos * 32 + lane: grows with every placement of a job), then 64 random bits.
CREATE FUNCTION pgwork.token_number(token uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(replace(token::text, '-', ''), 16))::bit(64)::bigint;

-- What a session remembers of a queue between claims, so that a claim needs not walk over the
-- remains of all jobs before it while vacuum is held back. Only a hint, in a custom setting of the
-- session: lost with it, rolled back with the claim, and overruled by a scan from the start when it
-- finds too little, and once a second at least (at most a twentieth of the time goes into that).
--   [1] when the last full scan was, ms    [2] what it cost, ms    [3] when `next` was noted, ms
--   [4] the lanes, as queue.priorities     [5..] per lane: start after `mark`; then per lane: `next`
-- A mark is taken over from `next` after 20 ms: time for the commits of producers that drew lower places.
CREATE FUNCTION pgwork._lanes(priorities integer) RETURNS smallint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE priorities WHEN 1 THEN '{0,1}'::smallint[]
       ELSE ARRAY(SELECT l::smallint FROM generate_series(0, 19) l WHERE priorities >> (l / 2) & 1 = 1 ORDER BY l) END;

CREATE FUNCTION pgwork._remember(queue integer, priorities integer, hint bigint[], full_scan boolean, now_ms bigint,
    first_lane smallint, last_lane smallint, first_pos bigint, last_pos bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hot smallint[] := pgwork._lanes(priorities);
    k integer := cardinality(hot);
    at integer := array_position(hot, first_lane);
BEGIN
    IF full_scan AND first_lane IS NOT NULL AND (at IS NULL OR first_lane / 2 <> last_lane / 2) THEN
        -- Rows came in by COPY, which notes no priorities: rare, so one look at all of them.
        UPDATE pgwork.queue t SET priorities = s.seen
          FROM (SELECT t.priorities | bit_or(1 << (l / 2)) AS seen
                  FROM generate_series(0, 19) l, pgwork.queue t
                 WHERE t.id = _remember.queue
                   AND (t.priorities >> (l / 2) & 1 = 1 OR EXISTS (SELECT FROM pgwork.live_job j WHERE j.queue = t.id AND j.lane = l))
                 GROUP BY t.priorities) s
         WHERE t.id = _remember.queue AND t.priorities <> s.seen;
    END IF;
    IF full_scan THEN
        hint := ARRAY[now_ms, greatest(0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - now_ms), now_ms, priorities]
                || coalesce(hint[5:4 + 2 * k], array_fill(0::bigint, ARRAY[2 * k]));
        IF first_lane = last_lane AND at IS NOT NULL THEN -- what lay before a mark pulls it back
            hint[4 + at] := least(hint[4 + at], first_pos - 1);
            hint[4 + k + at] := least(hint[4 + k + at], first_pos - 1);
        ELSIF first_lane IS NOT NULL THEN
            hint := hint[1:4] || array_fill(0::bigint, ARRAY[2 * k]);
        END IF;
    ELSE
        hint := hint[1:2] || now_ms || hint[4] || hint[5 + k:4 + 2 * k] || hint[5 + k:4 + 2 * k];
        IF first_lane = last_lane THEN
            hint[4 + k + at] := greatest(hint[4 + k + at], last_pos);
        END IF;
    END IF;
    PERFORM set_config('pgwork.hint_' || queue, hint::text, false);
END $$;

-- Sort key of a queue's first ready job among queues: priority, then age.
CREATE FUNCTION pgwork._head(queue integer, priorities integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT (j.lane::bigint << 58) + j.pos
      FROM unnest(pgwork._lanes(priorities)) WITH ORDINALITY l (lane, i)
     CROSS JOIN LATERAL (SELECT j.lane, j.pos FROM pgwork.live_job j
                          WHERE j.queue = _head.queue AND j.lane = l.lane AND j.token IS NULL ORDER BY j.pos LIMIT 1) j
     ORDER BY l.i LIMIT 1
$$;

-- This is the hot path: few statements, each with one possible plan, and no SQL functions but those that are
-- inlined (others are planned anew in every transaction).
CREATE FUNCTION pgwork.claim(queues text[], n integer, holder text, lease_ms bigint DEFAULT NULL)
RETURNS TABLE (queue text, id bigint, token uuid, attempt integer, max_attempts integer, priority integer, kind text,
    payload jsonb, body bytea, tags text[], created_at timestamptz, lease_until timestamptz, server_time timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_tidscan = on SET enable_nestloop = on SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    q record;
    wanted integer := n;
    got integer;
    now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    memory text;
    hint bigint[];
    k integer;          -- lanes that the hint speaks of
    full_scan boolean;
    lanes smallint[];
    marks bigint[];
    ctids tid[];
    any_flag smallint;
    first_lane smallint;
    last_lane smallint;
    first_pos bigint;
    last_pos bigint;
    alone integer;
    stamp text;
    until timestamptz;
BEGIN
    IF n BETWEEN 1 AND 10000 AND octet_length(holder) BETWEEN 1 AND 255 AND coalesce(claim.lease_ms, 100) BETWEEN 100 AND 86400000
       AND cardinality(queues) BETWEEN 1 AND 64 THEN
        NULL; -- as it should be
    ELSE
        PERFORM pgwork._refuse_unless(n BETWEEN 1 AND 10000, 'n', n::text, '1 .. 10000');
        PERFORM pgwork._refuse_unless(octet_length(holder) BETWEEN 1 AND 255, 'holder', holder, '1 to 255 bytes: who claims');
        PERFORM pgwork._refuse_unless(coalesce(claim.lease_ms, 100) BETWEEN 100 AND 86400000, 'lease_ms', claim.lease_ms::text, '100 .. 86400000');
        PERFORM pgwork._refuse('queues', queues::text, '1 to 64 names');
    END IF;

    FOR q IN
        SELECT t.* FROM pgwork.queue t
         WHERE t.name = ANY (queues) AND NOT t.paused
         ORDER BY CASE WHEN cardinality(queues) > 1 THEN pgwork._head(t.id, t.priorities) END
    LOOP
        lanes := CASE q.priorities WHEN 1 THEN '{0,1}'::smallint[] ELSE pgwork._lanes(q.priorities) END;
        k := cardinality(lanes);
        memory := current_setting('pgwork.hint_' || q.id, true);
        hint := CASE WHEN memory <> '' THEN memory::bigint[] END;
        IF cardinality(hint) <> 4 + 2 * k OR hint[4] <> q.priorities THEN
            hint := NULL;
        END IF;
        full_scan := hint IS NULL OR now_ms NOT BETWEEN hint[1] AND hint[1] + greatest(1000, 20 * hint[2]);
        marks := hint[5:4 + k];
        LOOP
            IF full_scan THEN
                lanes := '{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19}';
                marks := '{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}';
            END IF;
            -- LIMIT stands above nothing but this scan, and the update below goes by ctid: no plan takes more than n.
            SELECT array_agg(c.ctid), count(*), bit_or(c.flags), min(c.lane), max(c.lane), min(c.pos), max(c.pos)
              INTO ctids, got, any_flag, first_lane, last_lane, first_pos, last_pos
              FROM (SELECT j.* FROM unnest(lanes, marks) AS l (lane, mark)
                     CROSS JOIN LATERAL (SELECT j.ctid, j.lane, j.pos, j.flags FROM pgwork.live_job j
                                          WHERE j.queue = q.id AND j.lane = l.lane AND j.pos > l.mark AND j.token IS NULL
                                          ORDER BY j.pos LIMIT wanted FOR NO KEY UPDATE SKIP LOCKED) j
                     LIMIT wanted) c;
            EXIT WHEN full_scan OR got = wanted OR now_ms < hint[1] + greatest(50, 20 * hint[2]);
            full_scan := true;
        END LOOP;

        IF any_flag & 2 <> 0 THEN
            -- A job whose last holder died is claimed alone: should it be the killer, it takes no others along.
            SELECT min(c.i) INTO alone FROM unnest(ctids) WITH ORDINALITY c (ctid, i) JOIN pgwork.live_job j ON j.ctid = c.ctid WHERE j.flags & 2 <> 0;
            got := greatest(1, alone - 1);
            ctids := ctids[1:got];
            wanted := got; -- and from no other queue either
            last_lane := NULL; -- the rest stays: let the hint pass nobody
        END IF;

        IF full_scan OR got > 0 AND now_ms >= hint[3] + 20 THEN
            PERFORM pgwork._remember(q.id, q.priorities, hint, full_scan, now_ms, first_lane, last_lane, first_pos, last_pos);
        END IF;
        CONTINUE WHEN got = 0;

        IF any_flag & 4 <> 0 THEN -- unique keys that last until the claim
            DELETE FROM pgwork.unique_key u USING unnest(ctids) c (ctid) JOIN pgwork.live_job j ON j.ctid = c.ctid
             WHERE j.flags & 4 <> 0 AND u.queue = ANY (ARRAY[j.queue]) AND u.key = j.key AND u.id = coalesce(j.id, j.pos) AND u.free_after IS NULL;
        END IF;

        stamp := gen_random_uuid()::text; -- 122 random bits; its fixed ones are in the middle
        stamp := left(stamp, 8) || right(stamp, 8);
        until := clock_timestamp();
        RETURN QUERY
        UPDATE pgwork.live_job j
           SET token = (lpad(to_hex(j.pos * 32 + j.lane), 16, '0') || stamp)::uuid, holder = claim.holder, attempt = j.attempt + 1,
               lease_until = until + coalesce(j.lease_ms, claim.lease_ms, q.lease_ms) * interval '1 ms'
          FROM unnest(ctids) c (ctid) -- a nested loop over it: the rows come in the order of the claim
         WHERE j.ctid = c.ctid AND j.token IS NULL
        RETURNING q.name, coalesce(j.id, j.pos), j.token, j.attempt::integer,
                  coalesce(j.max_attempts, q.max_attempts)::integer, j.lane / 2, j.kind, j.payload, j.body, j.tags,
                  j.created_at, j.lease_until, until;

        wanted := wanted - got;
        EXIT WHEN wanted <= 0;
    END LOOP;
END $$;

-- The sleeping sign of this session, for _wake(): take it, look once more, then sleep.
CREATE FUNCTION pgwork.idle(queues text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_lock_shared(pgwork._lock('sleep', t.id)) FROM pgwork.queue t WHERE t.name = ANY (queues);
END $$;

CREATE FUNCTION pgwork.awake(queues text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_unlock_shared(pgwork._lock('sleep', t.id)) FROM pgwork.queue t WHERE t.name = ANY (queues);
END $$;

COMMENT ON FUNCTION pgwork.claim(text[], integer, text, bigint) IS
    'Takes up to n jobs for a holder under a lease (the job''s, else lease_ms, else the queue''s) and charges an attempt. Commit, then work; finish with id and token.';
COMMENT ON FUNCTION pgwork.token_number(uuid) IS 'The fencing number in a token: grows with every claim of a job.';
COMMENT ON FUNCTION pgwork.idle(text[]) IS 'Says that this session sleeps and listens for jobs of these queues; needs a session of its own. LISTEN first, claim once more afterwards.';
COMMENT ON FUNCTION pgwork.awake(text[]) IS 'Takes back idle() for the same queues.';
